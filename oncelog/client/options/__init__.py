"""What a program may set: names, types, defaults and checks of the options, and the functions that it passes.

Owns: the settings of producers, consumers and sessions, hooks and serializers. Does not own: options of connections
(`wire.security`), those of an administrator (`admin.settings`), and the effect of a setting. A combination that cannot
work is refused before anything is opened.
"""
