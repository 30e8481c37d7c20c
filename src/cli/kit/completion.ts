/**
 * `berth completion`: a shell script generated from the tree of commands. The scripts for the three shells do the same:
 * they follow the words to a command and offer what may come next. All words in them come from our tree, never from
 * user input. Names of machines are asked for when they are needed: `berth completion bash --machines`.
 */
import type { Command } from 'commander'
import { custom } from './row.ts'
import type { Call, Row } from './row-type.ts'

/** Prints names instead of the script; program.ts then loads no other commands. */
const MACHINES = '--machines'

const shells = ['bash', 'zsh', 'fish'] as const
type ShellName = (typeof shells)[number]

export const rows: readonly Row[] = [
  custom<{ machines?: true }>('completion', 'print a completion script for your shell', {
    isOffline: true,
    args: { '<shell>': { help: 'shell', choices: shells } },
    options: { [MACHINES]: { help: 'print the names of your machines instead', hidden: true } },
    run: async (call) => {
      const { shell, args, command } = call
      if (call.options.machines === true) return printMachines(call)
      const program = command.parent
      if (program !== null) shell.write(scripts[args[0] as ShellName](placesOf(program)))
    },
    examples: ['eval "$(berth completion bash)"', 'berth completion fish > ~/.config/fish/completions/berth.fish'],
  }),
]

/** The server has so long to answer: somebody waits at a prompt. */
const ANSWER_MS = 1_500
const MAX_NAMES = 500
/** Shells expand what a completion offers, so a label such as `$(id)` must never get there. */
const SAFE_NAME = /^[A-Za-z0-9][\w.-]{0,99}$/

/** One name per line: the label where only one machine has it. Without a server, a key or an answer there are none. */
async function printMachines(call: Call): Promise<void> {
  let rentals: ReadonlyArray<{ readonly name: string; readonly label: string | null }>
  try {
    rentals = (await call.client.call('listRentals', { timeoutMs: ANSWER_MS })).rentals
  } catch {
    // A message would appear in the middle of the line that is being typed.
    return
  }
  const labels = new Map<string, number>()
  for (const { label } of rentals) if (label !== null) labels.set(label, (labels.get(label) ?? 0) + 1)
  const names = rentals.map(({ name, label }) =>
    label !== null && SAFE_NAME.test(label) && labels.get(label) === 1 ? label : name,
  )
  for (const name of names.filter((one) => SAFE_NAME.test(one)).slice(0, MAX_NAMES)) call.shell.write(`${name}\n`)
}

/** How a command takes names of machines: as its first word, as any word, or with a path behind a colon. */
type NamePlace = 'first' | 'any' | 'path'

function namePlaceOf({ registeredArguments }: Command): NamePlace | undefined {
  const machine = registeredArguments.find(({ description }) => /, as shown by berth ls\b/.test(description))
  if (machine !== undefined) return machine.variadic || machine !== registeredArguments[0] ? 'any' : 'first'
  return registeredArguments.some(({ description }) => description.includes('NAME:PATH')) ? 'path' : undefined
}

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
  /** undefined: it takes no names of machines. */
  readonly machines: NamePlace | undefined
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
      machines: namePlaceOf(command),
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
      places.map(
        (place) =>
          `'${place.path}') candidates='${wordsOf(place)}' options='${place.options.join(' ')}' machines='${place.machines ?? ''}' ;;`,
      ),
      '    ',
    ),
    values: lines(
      valuesOf(places).map(([after, words]) => `'${after}') candidates='${words}' options='' machines='' ;;`),
      '    ',
    ),
  }
}

function bashScript(places: readonly Place[]): string {
  const { steps, offers, values } = cases(places)
  return `# berth completion for bash. To use it in every shell: eval "$(berth completion bash)" in ~/.bashrc
_berth() {
  local current="\${COMP_WORDS[COMP_CWORD]}" place='' word last='' candidates='' options='' machines='' before='' names=''
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -- ]] && return
    last=$word before=$place
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
  if [[ $current == -* ]]; then
    candidates=$options
  elif [[ -n $machines ]] && { [[ $machines != first ]] || [[ $place != "$before" ]]; }; then
    names=$(berth completion bash ${MACHINES} 2>/dev/null </dev/null) || names=''
    if [[ $machines == path ]]; then
      names=\${names//$'\\n'/: }\${names:+:}
      compopt -o nospace 2>/dev/null || true
    fi
    candidates="$candidates $names"
  fi
  COMPREPLY=($(compgen -W "$candidates" -- "$current")) || true
}
complete -o default -F _berth berth
`
}

function zshScript(places: readonly Place[]): string {
  const { steps, offers, values } = cases(places)
  return `#compdef berth
# berth completion for zsh. To use it in every shell: eval "$(berth completion zsh)" in ~/.zshrc, after compinit
_berth() {
  local place='' word last='' candidates='' options='' machines='' before='' names=''
  for word in "\${(@)words[2,CURRENT-1]}"; do
    [[ $word == -- ]] && { _files; return }
    last=$word before=$place
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
  if [[ $PREFIX == -* ]]; then
    candidates=$options
  elif [[ -n $machines && ( $machines != first || $place != $before ) ]]; then
    names=$(berth completion zsh ${MACHINES} 2>/dev/null </dev/null) || names=''
    if [[ $machines == path ]]; then
      _files
      [[ -n $names ]] && compadd -S '' -- \${=names//$'\\n'/: }:
      return
    fi
    candidates="$candidates $names"
  fi
  if [[ -n \${candidates// /} ]]; then compadd -- \${=candidates}; else _files; fi
}
if [[ $funcstack[1] == _berth ]]; then _berth "$@"; else compdef _berth berth; fi
`
}

function fishScript(places: readonly Place[]): string {
  const steps = stepsOf(places).map(([from, to]) => `            case '${from}'\n                set place '${to}'`)
  const offers = places.map(
    (place) =>
      `        case '${place.path}'\n            set candidates ${wordsOf(place)}\n            set options ${place.options.join(' ')}\n            set machines ${place.machines ?? ''}`,
  )
  const values = valuesOf(places).map(
    ([after, words]) => `        case '${after}'\n            set candidates ${words}\n            set machines`,
  )
  return `# berth completion for fish. To use it in every shell: berth completion fish > ~/.config/fish/completions/berth.fish
function __berth_words
    set -l place ''
    set -l before ''
    set -l words (commandline -opc)
    for word in $words[2..-1]
        test "$word" = -- && return
        set before $place
        switch "$place $word"
${steps.join('\n')}
        end
    end
    set -l candidates
    set -l options
    set -l machines
    switch "$place"
${offers.join('\n')}
    end
    switch "$place $words[-1]"
${values.join('\n')}
    end
    if string match -q -- '-*' (commandline -ct)
        printf '%s\\n' $options
        return
    end
    if test "$machines" = any; or test "$machines" = path; or test "$machines" = first -a "$place" != "$before"
        set -l names (berth completion fish ${MACHINES} 2>/dev/null </dev/null)
        test "$machines" = path && set names $names:
        set candidates $candidates $names
    end
    if test (count $candidates) -gt 0
        printf '%s\\n' $candidates
    end
end
# Files are offered only where nothing of ours can follow.
complete -c berth -n 'test (count (__berth_words)) -gt 0' -f -a '(__berth_words)'
`
}

const scripts: Readonly<Record<ShellName, (places: readonly Place[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}
