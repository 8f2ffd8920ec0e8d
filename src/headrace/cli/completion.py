"""`headrace completion`: what a shell must know to complete commands, options and topic names."""

from typing import Final

import click

SHELLS: Final = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a completion script for SHELL: bash, zsh or fish.

    \b
    bash   echo 'eval "$(headrace completion bash)"' >> ~/.bashrc
    zsh    echo 'eval "$(headrace completion zsh)"' >> ~/.zshrc
    fish   headrace completion fish > ~/.config/fish/completions/headrace.fish
    """
    from click.shell_completion import get_completion_class

    from headrace.cli import main

    kind = get_completion_class(shell)
    assert kind is not None, shell
    click.echo(kind(main, {}, "headrace", "_HEADRACE_COMPLETE").source())
