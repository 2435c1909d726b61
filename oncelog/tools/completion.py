"""`oncelog completion`: the script that completes commands, options and choices in a shell; click's own.

Owns: the name of the program in it. bash: `eval "$(oncelog completion bash)"` in ~/.bashrc, zsh alike in ~/.zshrc;
fish: `oncelog completion fish > ~/.config/fish/completions/oncelog.fish`.
"""

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.pass_context
@click.argument("shell", type=click.Choice(_SHELLS))
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell: `eval "$(oncelog completion bash)"`."""
    from click.shell_completion import get_completion_class

    from oncelog.tools.terminal import say

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell} cannot be completed by this version of click.")
    for line in kind(context.find_root().command, {}, "oncelog", "_ONCELOG_COMPLETE").source().splitlines():
        say(line)
