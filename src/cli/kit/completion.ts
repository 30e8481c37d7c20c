/**
 * `berth completion`: a shell script generated from the tree of commands. The scripts for the three shells do the same:
 * they follow the words to a command and offer what may come next. All words in them come from our tree, never from
 * user input.
 */
import type { Command } from 'commander'
import { custom } from './row.ts'
import type { Row } from './row-type.ts'

const shells = ['bash', 'zsh', 'fish'] as const
type ShellName = (typeof shells)[number]

export const rows: readonly Row[] = [
  custom('completion', 'print a completion script for your shell', {
    isOffline: true,
    args: { '<shell>': { help: 'shell', choices: shells } },
    run: async ({ shell, args, command }) => {
      const program = command.parent
      if (program !== null) shell.write(scripts[args[0] as ShellName](placesOf(program)))
    },
    examples: ['eval "$(berth completion bash)"', 'berth completion fish > ~/.config/fish/completions/berth.fish'],
  }),
]

/** A command, and what can follow it. */
interface Place {
  /** The words after `berth`, each with a space in front. */
  readonly path: string
  readonly commands: readonly string[]
  readonly options: readonly string[]
  /** Values of an argument with fixed choices. */
  readonly choices: readonly string[]
  /** Values of options with fixed choices. */
  readonly values: ReadonlyArray<readonly [option: string, words: string]>
  readonly aliases: readonly string[]
}

function placesOf(program: Command): Place[] {
  const everywhere = flagsOf(program)
  const visit = (command: Command, path: string, parent: string): Place[] => [
    {
      path,
      commands: command.commands.map((one) => one.name()),
      options: [...new Set([...flagsOf(command), ...everywhere, '--help'])],
      choices: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
      values: command.options.flatMap(({ long, argChoices }) =>
        long === undefined || argChoices === undefined ? [] : [[long, argChoices.join(' ')] as const],
      ),
      aliases: command.aliases().map((alias) => `${parent} ${alias}`),
    },
    ...command.commands.flatMap((one) => visit(one, `${path} ${one.name()}`, path)),
  ]
  return visit(program, '', '')
}

function flagsOf(command: Command): string[] {
  return command.options.flatMap(({ long }) => long ?? [])
}

/** Each word that leads from one command to another. */
function stepsOf(places: readonly Place[]): Array<readonly [from: string, to: string]> {
  return places.flatMap(({ path, aliases }) =>
    path === '' ? [] : [path, ...aliases].map((from) => [from, path] as const),
  )
}

function wordsOf({ commands, choices }: Place): string {
  return [...commands, ...choices].join(' ')
}

/** The values of each option, by `<place> <option>`. */
function valuesOf(places: readonly Place[]): Array<readonly [after: string, words: string]> {
  return places.flatMap(({ path, values }) => values.map(([option, words]) => [`${path} ${option}`, words] as const))
}

/** Bash and zsh share these: what can follow `place`, and the values of an option that is the `last` word. */
function cases(places: readonly Place[]): { steps: string; offers: string; values: string } {
  const lines = (rows: readonly string[], indent: string): string => rows.map((row) => indent + row).join('\n')
  return {
    steps: lines(
      stepsOf(places).map(([from, to]) => `'${from}') place='${to}' ;;`),
      '      ',
    ),
    offers: lines(
      places.map((place) => `'${place.path}') candidates='${wordsOf(place)}' options='${place.options.join(' ')}' ;;`),
      '    ',
    ),
    values: lines(
      valuesOf(places).map(([after, words]) => `'${after}') candidates='${words}' options='' ;;`),
      '    ',
    ),
  }
}

const scripts: Readonly<Record<ShellName, (places: readonly Place[]) => string>> = {
  bash: (places) => {
    const { steps, offers, values } = cases(places)
    return `# berth completion for bash. To use it in every shell: eval "$(berth completion bash)" in ~/.bashrc
_berth() {
  local current="\${COMP_WORDS[COMP_CWORD]}" place='' word last='' candidates='' options=''
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -- ]] && return
    last=$word
    case "$place $word" in
${steps}
    esac
  done
  case "$place" in
${offers}
  esac
  case "$place $last" in
${values}
  esac
  [[ $current == -* ]] && candidates=$options
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
}
complete -o default -F _berth berth
`
  },
  zsh: (places) => {
    const { steps, offers, values } = cases(places)
    return `#compdef berth
# berth completion for zsh. To use it in every shell: eval "$(berth completion zsh)" in ~/.zshrc, after compinit
_berth() {
  local place='' word last='' candidates='' options=''
  for word in "\${(@)words[2,CURRENT-1]}"; do
    [[ $word == -- ]] && { _files; return }
    last=$word
    case "$place $word" in
${steps}
    esac
  done
  case "$place" in
${offers}
  esac
  case "$place $last" in
${values}
  esac
  [[ $PREFIX == -* ]] && candidates=$options
  if [[ -n $candidates ]]; then compadd -- \${=candidates}; else _files; fi
}
if [[ $funcstack[1] == _berth ]]; then _berth "$@"; else compdef _berth berth; fi
`
  },
  fish: (places) => {
    const steps = stepsOf(places).map(([from, to]) => `            case '${from}'\n                set place '${to}'`)
    const offers = places.map(
      (place) =>
        `        case '${place.path}'\n            set candidates ${wordsOf(place)}\n            set options ${place.options.join(' ')}`,
    )
    const values = valuesOf(places).map(
      ([after, words]) => `        case '${after}'\n            set candidates ${words}`,
    )
    return `# berth completion for fish. To use it in every shell: berth completion fish > ~/.config/fish/completions/berth.fish
function __berth_words
    set -l place ''
    set -l words (commandline -opc)
    for word in $words[2..-1]
        test "$word" = -- && return
        switch "$place $word"
${steps.join('\n')}
        end
    end
    set -l candidates
    set -l options
    switch "$place"
${offers.join('\n')}
    end
    switch "$place $words[-1]"
${values.join('\n')}
    end
    if string match -q -- '-*' (commandline -ct)
        printf '%s\\n' $options
    else if test (count $candidates) -gt 0
        printf '%s\\n' $candidates
    end
end
# Files are offered only where nothing of ours can follow.
complete -c berth -n 'test (count (__berth_words)) -gt 0' -f -a '(__berth_words)'
`
  },
}
