/** Turns rows into a tree of commands with arguments, flags and help, and runs them. */
import { Argument, Option, type Command } from 'commander'
import type { Access } from '../../contract/endpoint.ts'
import { ApiError, isClientError } from '../../client/error.ts'
import { passWordsOn } from './command-line.ts'
import { explain, refusalOf, stepsFor } from './failure.ts'
import { flagOf, withFlags } from './field-flag.ts'
import { parserOf } from './flag.ts'
import { argsOf, buildInput, examplesOf, nameOf, operationOf, sourcesOf, type Arg } from './input.ts'
import { isPaged, pageOptions } from './page.ts'
import { YES } from './question.ts'
import { openSession, type GlobalOptions, type Session, type Who } from '../rental/session.ts'
import { exitCodes, type ExitCode, type Shell } from './shell.ts'
import { watchOptions } from './watch.ts'
import type { Call, Options, OptionSpec, Row } from './row-type.ts'

/** The usage of a command that only groups other commands. */
export const GROUP_USAGE = '<command>'

export interface Tree {
  readonly program: Command
  readonly shell: Shell
  /** The title of its section of the help. */
  readonly title: string
  /** Descriptions of groups, by their words. */
  readonly groups: Readonly<Record<string, string>>
  /** Aliases of groups. */
  readonly groupAliases: Readonly<Record<string, string>>
  readonly ended: (outcome: ExitCode) => void
}

export function addRow(tree: Tree, row: Row): void {
  const words = row.command.split(' ')
  const name = words.pop() ?? ''
  const parent = groupAt(tree, words)
  const command = parent.command(name, { isDefault: name === 'ls' && words.length > 0 })
  command.description(row.description).commandsGroup(tree.title)
  if (row.alias !== undefined) command.alias(row.alias)
  if (row.passesWordsOn !== undefined) passWordsOn(command, row.passesWordsOn === 'with options')
  const sources = sourcesOf(row)
  for (const argument of argumentsOf(row)) command.addArgument(argument)
  const flags = sources.flatMap(({ options }) => options)
  const extras = extraOptionsOf(row)
  // Options of a custom command come first, since the command is about them.
  for (const option of row.isCustom === true ? [...extras, ...flags] : [...flags, ...extras]) command.addOption(option)
  addHelp(command, row)
  command.action(() => runRow(tree, row, command, sources))
}

function groupAt(tree: Tree, words: readonly string[]): Command {
  return words.reduce((place, word, at) => {
    const existingGroup = place.commands.find((one) => one.name() === word)
    return existingGroup ?? addGroup(tree, place, words.slice(0, at + 1))
  }, tree.program)
}

function addGroup({ title, groups, groupAliases }: Tree, parent: Command, words: readonly string[]): Command {
  const path = words.join(' ')
  const alias = groupAliases[path]
  const group = parent
    .command(words.at(-1) ?? '')
    .description(groups[path] ?? '')
    .usage(GROUP_USAGE)
    .commandsGroup(title)
  return alias === undefined ? group : group.alias(alias)
}

/** The help of a list names further commands below it. Called when the tree is complete. */
export function addUsages(command: Command): void {
  for (const one of command.commands) addUsages(one)
  const names = command.commands.map((one) => one.name())
  if (names.length === 0 || command.parent === null || command.usage() === GROUP_USAGE) return
  const args = command.registeredArguments.map((one) => ` [${one.name()}${one.variadic ? '...' : ''}]`)
  command.usage(`[options] [${names.join('|')}]${args.join('')}`)
}

function argumentsOf(row: Row): Argument[] {
  const { target } = row
  const fields = operationOf(row)?.fields ?? []
  return [
    ...(target === undefined ? [] : [new Argument(`<${target.arg}>`, target.help)]),
    ...argsOf(row).map((one) => {
      const argument = new Argument(one.name, one.help)
      const field = fields.find((candidate) => nameOf(candidate) === one.field)
      const choices = one.choices ?? (one.parse === undefined ? field?.choices : undefined)
      const parse = one.parse ?? (field === undefined ? undefined : parserOf(field))
      if (parse !== undefined) argument.argParser(readEach(one, parse))
      return choices === undefined ? argument : argument.choices(choices)
    }),
  ]
}

function readEach({ name }: Arg, parse: (text: string) => unknown) {
  const isVariadic = name.includes('...')
  return (text: string, before: unknown): unknown =>
    isVariadic ? [...(Array.isArray(before) ? (before as unknown[]) : []), parse(text)] : parse(text)
}

function extraOptionsOf(row: Row): Option[] {
  const { isPaged: isList, canWatch, confirms, options, operation } = row
  const isPage = isList === true && operation !== undefined && isPaged(operation)
  const all: Options = {
    ...options,
    ...(isPage ? pageOptions(row.rowsShown) : {}),
    ...(canWatch === undefined ? {} : watchOptions(canWatch)),
    ...(operationOf(row)?.idempotent === true && row.sends === true ? idempotencyOption : {}),
    ...(confirms === true ? YES : {}),
  }
  return Object.entries(all).map(optionOf)
}

const idempotencyOption = {
  '--idempotency-key <key>': 'makes retries safe: a command with the same key runs once',
}

function optionOf([flag, spec]: [flag: string, spec: Options[string]]): Option {
  const {
    help,
    parse,
    choices,
    default: usual,
    conflicts,
    required,
    hidden,
  } = typeof spec === 'string' ? ({ help: spec } as OptionSpec) : spec
  const option = new Option(flag, help)
  if (choices !== undefined) option.choices(choices)
  if (parse !== undefined) option.argParser(parse)
  if (usual !== undefined) option.default(usual)
  if (conflicts !== undefined) option.conflicts([...conflicts])
  if (required === true) option.makeOptionMandatory()
  return hidden === true ? option.hideHelp() : option
}

function addHelp(command: Command, row: Row): void {
  const { notes } = row
  const examples = examplesOf(row)
  if (notes !== undefined) command.addHelpText('after', `\n${notes}`)
  const title = examples.filter((line) => !line.startsWith(' ')).length === 1 ? 'Example' : 'Examples'
  command.addHelpText('after', `\n${title}:\n${examples.map((line) => `  ${line}`).join('\n')}`)
}

async function runRow(tree: Tree, row: Row, command: Command, sources: ReturnType<typeof sourcesOf>): Promise<void> {
  const { shell } = tree
  const options = command.optsWithGlobals<GlobalOptions>()
  let opened: Session | undefined
  const open = (): Session =>
    (opened ??= openSession(
      shell,
      options,
      row.whoOf?.(options as never) ?? row.who ?? whoOf(operationOf(row)?.access),
    ))
  try {
    if (row.isOffline !== true) open()
    const [first] = command.processedArgs as [string?]
    const target = row.target === undefined ? undefined : await row.target.find(open().client, first ?? '')
    const targetId = target === undefined ? undefined : row.target?.idOf(target)
    const call: Call = {
      shell,
      get session() {
        return open()
      },
      get client() {
        return open().client
      },
      get screen() {
        return open().screen
      },
      options,
      args: command.processedArgs as unknown[],
      input: buildInput(row, sources, command, targetId),
      target,
      command,
    }
    // Before the command runs, so that a question is about a known account, and `--watch` shows it at all.
    if (row.isOffline !== true && row.showsAccount !== true) await stateAccount(open(), shell, row)
    tree.ended((await row.run(call)) ?? exitCodes.ok)
  } catch (error) {
    const hinted = addHints(row, sources, command, error)
    throw opened === undefined ? hinted : explain(hinted, opened)
  }
}

/** Names the flag that the server objects to, or the command that lists what was not found. */
function addHints(row: Row, sources: ReturnType<typeof sourcesOf>, command: Command, cause: unknown): unknown {
  if (!(cause instanceof ApiError)) return cause
  const flag = (path: readonly PropertyKey[]): string | undefined => flagOf(row, sources, command, path)
  const error = withFlags(cause, flag)
  if (stepsFor(error, 'anyone') !== undefined) return error
  if (error.status === 404 || error.reason?.endsWith('_not_found') === true) {
    const list = listFor(row, sources, error)
    return list === undefined ? error : refusalOf(error, exitCodes.failed, [`To list them: ${list}`])
  }
  if (error.issues.length === 0) return error
  const lines = error.issues.flatMap(({ path, message }) => {
    const name = flag(path) ?? (path.join('.') || 'the request')
    if (!error.message.includes(message)) return `${name}: ${message}`
    return isOmitted(command, name) ? [] : `Check ${name}.`
  })
  return refusalOf(error, exitCodes.failed, lines)
}

/**
 * Whether the flag was not typed, so that its value was chosen by the command or the server and the user cannot correct
 * it.
 */
function isOmitted(command: Command, flag: string): boolean {
  const option = command.options.find(({ long }) => long === flag)
  return option !== undefined && command.getOptionValueSource(option.attributeName()) !== 'cli'
}

/** The command that lists what was not found, as the help of its argument or flag names it. */
function listFor(row: Row, sources: ReturnType<typeof sourcesOf>, { reason = '' }: ApiError): string | undefined {
  const flags = sources.flatMap(({ options }) => options.map(({ description }) => description))
  const help = [row.target?.help ?? '', ...argsOf(row).map((one) => one.help), ...flags]
  const lists = help.flatMap((text) => /as shown by (berth [a-z -]+)/.exec(text)?.[1] ?? [])
  return lists.find((list) => list.includes(`${reason.replace('_not_found', '')}s`)) ?? lists[0]
}

/**
 * The key that a command uses. A command that customers may use runs as a customer even on the server's machine, where
 * the operator's key is available too: otherwise things would be created in the operator's account by accident.
 * Suppliers' commands may use the operator's key, for the machines of the house.
 */
function whoOf(access: Access | undefined): Who {
  if (access === undefined || access === 'public') return 'anyone'
  if (access === 'any-key' || access === 'person') return 'customer'
  return access.every((scope) => scope === 'operator' || scope === 'supply') ? 'operator' : 'customer'
}

/**
 * States the account and server of a command if they were chosen from several. Changes state it everywhere, and other
 * commands at a terminal, where somebody has logged in to more than one.
 */
async function stateAccount(session: Session, shell: Shell, row: Row): Promise<void> {
  const { client, screen, isGuess, isAmongLogins, json, who } = session
  if (json || !isGuess || who === 'anyone') return
  const operation = operationOf(row)
  // Posts that create nothing are questions, such as a chat.
  const isChange = operation?.idempotent === true || !['GET', 'POST'].includes(operation?.method ?? 'GET')
  if (!isChange && !(isAmongLogins && shell.person !== undefined)) return
  const account = session.savedAccount ?? (await readAccount(session))
  if (account === undefined) return
  const others = ' To use another: berth accounts use, --profile, --key-file or BERTH_KEY.'
  const text = `Account: ${account.name} (${account.id}) at ${client.url}.${isChange ? others : ''}`
  for (const line of screen.render([text])) shell.writeError(`${line}\n`)
}

/** undefined: the server does not tell, and the command itself fails for the same reason. */
async function readAccount({ client }: Session): Promise<{ readonly name: string; readonly id: string } | undefined> {
  try {
    return (await client.call('getMe')).account
  } catch (error) {
    if (isClientError(error)) return undefined
    throw error
  }
}
