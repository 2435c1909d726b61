"""What a program may set: names, types, defaults and checks of the options, and the functions that it passes.

This room owns the settings of producers, consumers and sessions, the hooks and the serializers, and the keyword
arguments of all clients for type checkers, which `make generate` makes of the settings. It leaves the options of
connections to `wire.security` and those of an administrator to `admin.settings`. It refuses a combination that
cannot work before anything is opened.
"""
