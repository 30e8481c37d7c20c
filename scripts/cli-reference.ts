/**
 * Generates the command reference from each command's `--help`. Options common to all commands are left out; docs/cli.md
 * lists them once.
 */
import { runCli } from '../src/cli/program.ts'

/** A group of commands: its name in the help, and on the page. */
const groups = [
  ['Server', 'Servers and keys'],
  ['Customers', 'For customers'],
  ['Suppliers', 'For suppliers'],
  ['Operators', 'For operators'],
] as const

export async function renderCliReference(): Promise<string> {
  const overview = await helpOf([])
  const parts = ['# The commands of `berth`\n']
  for (const [group, title] of groups) {
    parts.push(`## ${title}\n`)
    for (const command of commandsOf(overview, group)) parts.push(sectionOf(command, await helpOf(command.split(' '))))
  }
  return parts.join('\n')
}

/** `berth --help` lists the commands of each group. */
export function commandsOf(overview: string, group: string): string[] {
  const [, list = ''] = overview.split(`\n${group}:\n`)
  const [lines = ''] = list.split('\n\n')
  return [...lines.matchAll(/^ {2}([a-z][a-z-]*(?: [a-z-]+)*)(?: [<[].*?)?(?: {2,}\S|$)/gm)].map(
    ([, words = '']) => words,
  )
}

function sectionOf(command: string, help: string): string {
  const [usage = '', description = '', ...rest] = help.trimEnd().split('\n\n')
  const sentence = description.split('\n').join(' ')
  const own = rest
    .filter((part) => !part.startsWith('Global Options:'))
    .map((part) => part.replace(/\n {2}-h, --help .*(\n {4,}.*)*/, ''))
    .filter((part) => part !== 'Options:')
  const said = `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`
  const block = [usage.replace(/^Usage: /, ''), ...own].join('\n\n')
  return `### berth ${command}\n\n${said}\n\n\`\`\`text\n${block}\n\`\`\`\n`
}

async function helpOf(words: readonly string[]): Promise<string> {
  let out = ''
  await runCli([...words, '--help'], {
    env: {},
    color: { out: false, error: false },
    write: (text) => void (out += text),
    writeError: (text) => void (out += text),
    readFile: () => undefined,
    readInput: () => undefined,
  })
  return out
}
