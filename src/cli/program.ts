/** The `berth` command: global options, groups of commands, and the one place where errors become exit codes. */
import { Command, CommanderError, Option, type Argument } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import { firstWord, prepareWords, withCommandName } from './kit/command-line.ts'
import { addRow, addUsages, GROUP_USAGE, type Tree } from './kit/command.ts'
import { commandFiles, groupAliases, groupDescriptions, type CommandFile } from './command-table.ts'
import { report } from './kit/failure.ts'
import { firstScreen, helpRoles } from './kit/first-screen.ts'
import { loadOperations } from './kit/operation-source.ts'
import { parseProfileName } from './kit/profile.ts'
import { paint } from './kit/screen.ts'
import { DEFAULT_URL, type GlobalOptions } from './rental/session.ts'
import { exitCodes, type ExitCode, type Shell } from './kit/shell.ts'

export async function runCli(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  let outcome: ExitCode = exitCodes.ok
  if (argv.length === 0) {
    shell.write(firstScreen(shell))
    return outcome
  }
  const isWholeHelp = argv[0] === 'help' && argv[1] === 'all' && argv.length === 2
  const role = argv[0] === 'help' && argv.length === 2 ? helpRoles[argv[1] ?? ''] : undefined
  const program = makeProgram(shell)
  try {
    const words = isWholeHelp ? ['--help'] : role === undefined ? withCommandName(program, argv) : argv
    const ended = (code: ExitCode): void => {
      outcome = code
    }
    await addCommands({ program, shell, groups: groupDescriptions, groupAliases, ended }, words, role)
    addUsages(program)
    pointToHelp(program, 'berth')
    if (role !== undefined) program.outputHelp()
    else await program.parseAsync(prepareWords(program, words), { from: 'user' })
    return outcome
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    return report(shell, error, program.opts<GlobalOptions>().json === true)
  }
}

/** The command with its global options, and no commands yet. */
function makeProgram(shell: Shell): Command {
  const program: Command = new Command('berth')
    .description('A GPU cloud that anyone can run: machines, volumes and models over one HTTP API.')
    .usage('[options] <command>')
    .version(packageJson.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .option('--url <url>', 'URL of the server (BERTH_URL; default: the local server)')
    .addOption(new Option('--key-file <file>', 'file that holds the API key').conflicts('key'))
    .option('--key <key>', 'API key (BERTH_KEY); visible to other users of this machine')
    .option('--profile <name>', 'saved server and key to use (BERTH_PROFILE)', parseProfileName)
    .option('--json', 'print JSON')
    .addHelpText('after', `\n${keysHelp}`)
    .configureHelp({
      // Names of commands may be long: descriptions wrap in the rest of 80 columns.
      minWidthToWrap: 30,
      styleTitle: (title) => paint(shell.color.out, 'bold', title),
      showGlobalOptions: true,
      // Not those of the groups above, which a command does not take.
      visibleGlobalOptions: (command) => (command === program ? [] : [...program.options]),
      visibleCommands: (command) => command.commands.flatMap(leavesOf),
      subcommandTerm: termOf,
      optionDescription: describeOption,
    })
    .configureOutput({
      writeOut: (text) => shell.write(text),
      writeErr: (text) => shell.writeError(text),
      getOutHasColors: () => shell.color.out,
      getErrHasColors: () => shell.color.error,
      outputError: (text, write) => write(text.replace(/^error:/, paint(shell.color.error, 'red', 'error:'))),
    })
    .exitOverride()
  return program
}

/** The commands of the file that has the wanted one, or all (of one role) where help or a suggestion may need them. */
async function addCommands(
  tree: Omit<Tree, 'title'>,
  argv: readonly string[],
  role: string | undefined,
): Promise<void> {
  const { program } = tree
  const word = firstWord(program, argv)
  if (word === undefined && argv.some((one) => one === '-V' || one === '--version')) return
  // The completion script names every command; the names of machines in it come from a second call, which is fast.
  const isForScript = word === 'completion' && !argv.includes('--machines')
  const isWanted = ({ names }: CommandFile): boolean => word !== undefined && !isForScript && names.includes(word)
  const groups = Object.entries(commandFiles).filter(([title]) => role === undefined || title === role)
  const hasWanted = groups.some(([, files]) => files.some(isWanted))
  for (const [title, files] of groups) {
    program.commandsGroup(title)
    const used = hasWanted ? files.filter(isWanted) : files
    const rows = (await Promise.all(used.map((file) => file.load()))).flat()
    if (rows.some(({ operation }) => operation !== undefined)) await loadOperations()
    for (const row of rows) addRow({ ...tree, title }, row)
  }
}

const keysHelp = `Which server:
  --url, --profile, BERTH_URL, or BERTH_PORT as for berth serve. Otherwise the
  server running from the data folder, or ${DEFAULT_URL}.

Which API key:
  --key-file, --key, --profile, BERTH_KEY, or the key saved by berth login.
  Otherwise, and only for a server on this machine, the key in the data folder
  (BERTH_DATA_DIR, default .berth): operator.key for operators' commands,
  demo.key for customers' commands.

Exit codes:
  0  success
  1  failed, or a check found problems
  2  wrong usage
  3  the server cannot be reached
  4  the API key is missing, rejected, or lacks a scope`

const MAX_CHOICES_SHOWN = 8

/** Choices and the default share one pair of brackets. Long lists of choices are left to completion and to errors. */
function describeOption({ description, argChoices = [], defaultValue }: Option): string {
  const [, text = '', statedDefault] = /^(.*?)(?: \(default: ([^)]*)\))?$/.exec(description) ?? []
  const isListed = argChoices.length <= MAX_CHOICES_SHOWN && !argChoices.every((choice) => text.includes(choice))
  const usual =
    statedDefault ??
    (defaultValue === undefined || typeof defaultValue === 'boolean' ? undefined : String(defaultValue))
  const notes = [...(isListed ? [argChoices.join(', ')] : []), ...(usual === undefined ? [] : [`default: ${usual}`])]
  return notes.length === 0 ? text : `${text} (${notes.join('; ')})`
}

/** Every command in one list. A group that does nothing by itself is replaced by its commands. */
function leavesOf(command: Command): Command[] {
  const ownCommand = command.usage() === GROUP_USAGE ? [] : [command]
  return [...ownCommand, ...command.commands.flatMap(leavesOf)]
}

/** The words after `berth`, with the arguments. */
function termOf(command: Command): string {
  const words = [command.name(), ...command.registeredArguments.map(argumentTerm)]
  for (let group = command.parent; group !== null && group.parent !== null; group = group.parent)
    words.unshift(group.name())
  return words.join(' ')
}

function argumentTerm(argument: Argument): string {
  const name = argument.name() + (argument.variadic ? '…' : '')
  return argument.required ? `<${name}>` : `[${name}]`
}

/** After wrong usage, the help of that command is the next step. */
function pointToHelp(command: Command, name: string): void {
  command.showHelpAfterError(`  See ${name} --help.`)
  for (const one of command.commands) pointToHelp(one, `${name} ${one.name()}`)
}
