/**
 * Reads the words of a command line before commander does: finds the command, also by other names, suggests one where
 * there is no such command, and finds the words that belong to a program on another machine.
 */
import type { Command } from 'commander'
import { absentCommands, absentFlags, bareAliases, commandAliases, flagAliases, verbAliases } from '../alias-table.ts'
import { CliError, exitCodes } from './shell.ts'

const MAX_SUGGESTIONS = 5
/** A name with more typos than this is not suggested. */
const MAX_TYPOS = 3

/** The first word that is neither an option of `program` nor the value of one. */
export function firstWord(program: Command, argv: readonly string[]): string | undefined {
  return argv[nextWord([program], argv, 0)]
}

/** Replaces the first word by the command that it stands for. `program` needs its options only, and no commands yet. */
export function withCommandName(program: Command, argv: readonly string[]): string[] {
  let at = nextWord([program], argv, 0)
  if (argv[at] === 'help') at = nextWord([program], argv, at + 1)
  const word = argv[at] ?? ''
  const absent = ofName(absentCommands, word)
  if (absent !== undefined) throw new CliError(exitCodes.usage, absent.problem, absent.next)
  const bare = ofName(bareAliases, word)
  const [next = '-', ...others] = argv.slice(at + 1)
  const isHelp = argv.some((one) => one === 'help' || one === '--help' || one === '-h')
  const isBare = bare !== undefined && !isHelp && next.startsWith('-') && !others.some((one) => bare.unless.test(one))
  const command = isBare ? bare.alias : ofName(commandAliases, word)
  return command === undefined ? [...argv] : [...argv.slice(0, at), ...command.split(' '), ...argv.slice(at + 1)]
}

/** Tables are written by hand, but words are not: `constructor` is no alias. */
function ofName<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}

/**
 * Rewrites the command line for commander. After `exec NAME`, the next word starts a command for another machine, whose
 * options are not ours, so `--` is put in front of it. Unknown commands are reported here, since commander takes them
 * for an excess argument in groups with a default command.
 */
export function prepareWords(program: Command, argv: readonly string[]): string[] {
  const words = [...argv]
  const path = [program]
  let at = nextWord(path, words, 0)
  for (let command = program; command.commands.length > 0 && at < words.length; at = nextWord(path, words, at + 1)) {
    const word = words[at] ?? ''
    const next = findChild(command, word) ?? findByVerb(program, command, word)
    if (next === undefined) {
      if (word !== 'help' && !takesArguments(command)) reportUnknown(program, command, word)
      return words
    }
    words[at] = next.name()
    command = next
    path.push(next)
  }
  replaceFlags(path, words)
  const command = path.at(-1)
  const passes = command === undefined ? undefined : passing.get(command)
  if (passes === undefined) return words
  const start = passes.options ? nextForeign(path, words, at + 1) : nextWord(path, words, at + 1)
  return start < words.length ? [...words.slice(0, start), '--', ...words.slice(start)] : words
}

/** The command of a group that a verb of other command lines stands for. */
function findByVerb(program: Command, group: Command, verb: string): Command | undefined {
  if (group === program) return undefined
  return (ofName(verbAliases, verb) ?? []).flatMap((name) => findChild(group, name) ?? [])[0]
}

/** Replaces other names of flags: `-e A=b`, `-eA=b` and `--name=web`. */
function replaceFlags(path: readonly Command[], words: string[]): void {
  const name = path
    .slice(1)
    .map((one) => one.name())
    .join(' ')
  const [aliases, absent] = [ofName(flagAliases, name) ?? {}, ofName(absentFlags, name) ?? {}]
  for (let at = 0; at < words.length && words[at] !== '--'; at += 1) {
    const { flag, value } = splitFlag(words[at] ?? '')
    const instead = ofName(absent, flag)
    if (instead !== undefined) throw new CliError(exitCodes.usage, instead.problem, instead.next)
    const replacement = ofName(aliases, flag)
    if (replacement !== undefined) words[at] = value === undefined ? replacement : `${replacement}=${value}`
    if (takesNextWord(path, words[at] ?? '')) at += 1
  }
}

function splitFlag(word: string): { readonly flag: string; readonly value: string | undefined } {
  const [, long, longValue] = /^(--[\w-]+)=(.*)$/s.exec(word) ?? []
  if (long !== undefined) return { flag: long, value: longValue }
  const [, short, shortValue] = /^(-\w)(.+)$/s.exec(word) ?? []
  return short === undefined ? { flag: word, value: undefined } : { flag: short, value: shortValue?.replace(/^=/, '') }
}

const passing = new WeakMap<Command, { readonly options: boolean }>()

/** Marks a command whose words after the first belong to a program on another machine; `options`: also its options. */
export function passWordsOn(command: Command, options = false): Command {
  passing.set(command, { options })
  return command
}

/** The index of the next word that is no option of ours. At `--`, that is the end. */
function nextForeign(path: readonly Command[], words: readonly string[], from: number): number {
  for (let at = from; at < words.length; at += 1) {
    const word = words[at] ?? ''
    if (word === '--' || word === '--help' || word === '-h') return words.length
    const isOwn = path.some(({ options }) =>
      options.some(({ short, long }) => isFlag(word, short) || isFlag(word, long)),
    )
    if (!isOwn) return at
    if (takesNextWord(path, word)) at += 1
  }
  return words.length
}

function isFlag(word: string, flag: string | undefined): boolean {
  return flag !== undefined && (word === flag || (flag.startsWith('--') && word.startsWith(`${flag}=`)))
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
