"""`ottla completion`: a script that makes a shell complete commands, options, topics, groups and profiles."""

from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError

COMPLETE = "__complete"  # the word by which the scripts ask; see `candidates`

BASH = f"""_ottla() {{
    local line
    COMPREPLY=()
    while IFS=$'\\n' read -r line; do
        COMPREPLY+=("${{line%%$'\\t'*}}")
    done < <("${{COMP_WORDS[0]}}" {COMPLETE} "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null)
}}
complete -o default -F _ottla ottla
"""
ZSH = f"""#compdef ottla
_ottla() {{
    local line
    local -a words_ shown
    while IFS=$'\\n' read -r line; do
        words_+=("${{line%%$'\\t'*}}")
        shown+=("${{line/$'\\t'/  }}")
    done < <("${{words[1]}}" {COMPLETE} "${{(@)words[2,$CURRENT]}}" 2>/dev/null)
    if (( $#words_ )); then
        compadd -l -d shown -a words_
    else
        _files
    fi
}}
compdef _ottla ottla
"""
FISH = f"""function __ottla_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] {COMPLETE} $words[2..] 2>/dev/null
end
complete -c ottla -a '(__ottla_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
) -> None:
    """Print a script that completes commands, options, topics, groups and profiles in a shell.

    Nothing is installed. Topics and groups are those of the cluster that the line names, or the usual one.

    \b
    Examples:
      source <(ottla completion bash)
      ottla completion zsh > ~/.zfunc/_ottla
      ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    if shell not in SCRIPTS:
        raise CommandError(f"SHELL is {', '.join(SCRIPTS)}, not {shell!r}", USAGE)
    print(SCRIPTS[shell], end="")
