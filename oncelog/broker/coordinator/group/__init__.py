"""The group coordinator: classic groups, consumer groups, committed offsets."""
