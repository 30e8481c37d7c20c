/** The `berth` command: its options, its groups of commands, and the one place where errors become exit codes. */
import { Command, CommanderError, Option, type Argument } from 'commander'
import packageJson from '../../package.json' with { type: 'json' }
import { firstWord, prepareWords } from './command-line.ts'
import { commandFiles, type CommandFile } from './command-table.ts'
import { addExamples } from './example.ts'
import { explain, report } from './failure.ts'
import { parseProfileName } from './profile.ts'
import { paint } from './screen.ts'
import { DEFAULT_URL, GROUP_USAGE, openSession, type GlobalOptions, type Run } from './session.ts'
import { exitCodes, type ExitCode, type Shell } from './shell.ts'

export async function runCli(argv: readonly string[], shell: Shell): Promise<ExitCode> {
  let outcome: ExitCode = exitCodes.ok
  const run: Run =
    (who, work) =>
    async (...parameters) => {
      // Commander adds the options and the command to what the command line has.
      const command = parameters.at(-1) as Command
      const session = openSession(shell, command.optsWithGlobals<GlobalOptions>(), who)
      try {
        outcome = (await work(session, ...(parameters.slice(0, -2) as string[]))) ?? exitCodes.ok
      } catch (error) {
        throw explain(error, session)
      }
    }
  const program = await buildProgram(shell, run, argv)
  try {
    if (argv.length === 0) program.outputHelp()
    else await program.parseAsync(prepareWords(program, argv), { from: 'user' })
    return outcome
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.usage
    return report(shell, error, program.opts<GlobalOptions>().json === true)
  }
}

async function buildProgram(shell: Shell, run: Run, argv: readonly string[]): Promise<Command> {
  const program: Command = new Command('berth')
    .description('A GPU cloud that anyone can run: machines, volumes and models over one HTTP API.')
    .usage('[options] <command>')
    .version(packageJson.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this, or the help of a command')
    .option('--url <url>', `the server to talk to (BERTH_URL; default: see below)`)
    .addOption(new Option('--key-file <file>', 'a file with the API key').conflicts('key'))
    .option('--key <key>', 'the API key (BERTH_KEY); others on this machine can see it')
    .option('--profile <name>', 'a server that you logged in to (BERTH_PROFILE)', parseProfileName)
    .option('--json', 'print JSON, for programs')
    .addHelpText('after', `\n${keysHelp}`)
    .configureHelp({
      styleTitle: (title) => paint(shell.colour.out, 'bold', title),
      showGlobalOptions: true,
      // Not those of the groups above, which a command does not take.
      visibleGlobalOptions: (command) => (command === program ? [] : [...program.options]),
      visibleCommands: (command) => command.commands.flatMap(leavesOf),
      subcommandTerm: termOf,
    })
    .configureOutput({
      writeOut: (text) => shell.write(text),
      writeErr: (text) => shell.writeError(text),
      getOutHasColors: () => shell.colour.out,
      getErrHasColors: () => shell.colour.error,
      outputError: (text, write) => write(text.replace(/^error:/, paint(shell.colour.error, 'red', 'error:'))),
    })
    .exitOverride()
  await addCommands(program, run, shell, argv)
  addExamples(program)
  pointToHelp(program, 'berth')
  return program
}

/** Those of the file that has the command, or all of them where help or a suggestion may need them. */
async function addCommands(program: Command, run: Run, shell: Shell, argv: readonly string[]): Promise<void> {
  const word = firstWord(program, argv)
  if (word === undefined && argv.some((one) => one === '-V' || one === '--version')) return
  // Its script names every command.
  const isWanted = ({ names }: CommandFile): boolean =>
    word !== undefined && word !== 'completion' && names.includes(word)
  const groups = Object.entries(commandFiles)
  const hasWanted = groups.some(([, files]) => files.some(isWanted))
  for (const [title, files] of groups) {
    program.commandsGroup(title)
    const used = hasWanted ? files.filter(isWanted) : files
    for (const add of await Promise.all(used.map((file) => file.load()))) add(program, run, shell)
  }
}

const keysHelp = `Servers:
  Named with --url, --profile or BERTH_URL, or by BERTH_PORT, as berth serve
  takes it. Without, the server that runs in the data folder; without that,
  ${DEFAULT_URL}.

Keys:
  Named with --key-file, --key, --profile or BERTH_KEY, or kept by berth login.
  Without, and only for a server on this machine, the key is read from the data
  folder (BERTH_DATA_DIR, default .berth): operator.key for operators' commands,
  demo.key for customers'.

Exit codes:
  0  done
  1  failed, or problems were found
  2  wrong usage
  3  the server cannot be reached
  4  the key is missing or was refused`

/** What can be typed, in one list: a group that does nothing by itself is left out for what is in it. */
function leavesOf(command: Command): Command[] {
  const own = command.usage() === GROUP_USAGE ? [] : [command]
  return [...own, ...command.commands.flatMap(leavesOf)]
}

/** The words after `berth`, and what must follow them. */
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

/** After wrong usage, the help of the very command is the next step. */
function pointToHelp(command: Command, name: string): void {
  command.showHelpAfterError(`  ${name} --help shows how.`)
  for (const one of command.commands) pointToHelp(one, `${name} ${one.name()}`)
}
