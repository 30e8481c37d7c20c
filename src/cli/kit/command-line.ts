/**
 * Reads the words of a command line before commander does: finds the command, suggests one where there is no such
 * command, and finds the words that belong to a program on another machine.
 */
import type { Command } from 'commander'

const MAX_SUGGESTIONS = 5
/** A name with more typos than this is not suggested. */
const MAX_TYPOS = 3

/** The first word that is neither an option of `program` nor the value of one. */
export function firstWord(program: Command, argv: readonly string[]): string | undefined {
  return argv[nextWord([program], argv, 0)]
}

/**
 * Rewrites the command line for commander. After `exec NAME`, the next word starts a command for another machine, whose
 * options are not ours, so `--` is put in front of it. Unknown commands are reported here, since commander takes them
 * for an excess argument in groups with a default command.
 */
export function prepareWords(program: Command, argv: readonly string[]): string[] {
  const path = [program]
  let at = nextWord(path, argv, 0)
  for (let command = program; command.commands.length > 0 && at < argv.length; at = nextWord(path, argv, at + 1)) {
    const word = argv[at] ?? ''
    const next = findChild(command, word)
    if (next === undefined) {
      if (word !== 'help' && !takesArguments(command)) reportUnknown(program, command, word)
      return [...argv]
    }
    command = next
    path.push(next)
  }
  if (!passesWordsOn(path.at(-1))) return [...argv]
  const words = nextWord(path, argv, at + 1)
  return words < argv.length ? [...argv.slice(0, words), '--', ...argv.slice(words)] : [...argv]
}

const passing = new WeakSet<Command>()

/** Marks a command whose words after the first belong to a program on another machine. */
export function passWordsOn(command: Command): Command {
  passing.add(command)
  return command
}

function passesWordsOn(command: Command | undefined): boolean {
  return command !== undefined && passing.has(command)
}

/** The index of the next word that is neither an option nor the value of one. At `--`, that is the end. */
function nextWord(path: readonly Command[], argv: readonly string[], from: number): number {
  for (let at = from; at < argv.length; at += 1) {
    const word = argv[at] ?? ''
    if (word === '--') return argv.length
    if (!word.startsWith('-') || word === '-') return at
    if (takesNextWord(path, word)) at += 1
  }
  return argv.length
}

/** The command that a group runs without a further word: its list. */
function listOf(group: Command): Command | undefined {
  return group.parent === null ? undefined : findChild(group, 'ls')
}

function takesArguments(command: Command): boolean {
  return command.registeredArguments.length > 0 || listOf(command)?.registeredArguments.at(0)?.required === false
}

function takesNextWord(path: readonly Command[], flag: string): boolean {
  const list = path.map(listOf).at(-1)
  return [...path, ...(list === undefined ? [] : [list])].some(({ options }) =>
    options.some(({ required, short, long }) => required && (flag === short || flag === long)),
  )
}

function findChild(command: Command, word: string): Command | undefined {
  return command.commands.find((one) => one.name() === word || one.aliases().includes(word))
}

function reportUnknown(program: Command, command: Command, word: string): never {
  const names = command.commands.flatMap((one) => [one.name(), ...one.aliases()])
  const elsewhere = pathsEndingIn(program, word)
  const words = (elsewhere.length > 0 ? elsewhere : similarTo(word, names)).slice(0, MAX_SUGGESTIONS)
  const hint = words.length === 0 ? '' : `\n(Did you mean ${words.length > 1 ? 'one of ' : ''}${words.join(', ')}?)`
  return command.error(`error: unknown command '${word}'${hint}`, { code: 'commander.unknownCommand' })
}

/** Finds commands that end in a word, such as `keys show` for `show`. */
function pathsEndingIn(command: Command, word: string, path: readonly string[] = []): string[] {
  return command.commands.flatMap((one) => {
    const longerPath = [...path, one.name()]
    return [...(one.name() === word ? [longerPath.join(' ')] : []), ...pathsEndingIn(one, word, longerPath)]
  })
}

function similarTo(word: string, names: readonly string[]): string[] {
  const near = names
    .map((name) => ({ name, typos: countTypos(word, name) }))
    .filter(({ name, typos }) => typos <= MAX_TYPOS && typos <= 0.4 * Math.max(name.length, word.length))
  const fewest = Math.min(...near.map(({ typos }) => typos))
  return near.filter(({ typos }) => typos === fewest).map(({ name }) => name)
}

/** Counts letters that were added, dropped, replaced, or swapped with their neighbor. */
function countTypos(one: string, other: string): number {
  const rows: number[][] = [Array.from({ length: other.length + 1 }, (_, j) => j)]
  const cost = (i: number, j: number): number => rows[i]?.[j] ?? Infinity
  for (let i = 1; i <= one.length; i += 1) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= other.length; j += 1) {
      const isSwap = one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]
      row.push(
        Math.min(
          cost(i - 1, j) + 1,
          cost(i, j - 1) + 1,
          cost(i - 1, j - 1) + (one[i - 1] === other[j - 1] ? 0 : 1),
          isSwap ? cost(i - 2, j - 2) + 1 : Infinity,
        ),
      )
    }
  }
  return cost(one.length, other.length)
}
