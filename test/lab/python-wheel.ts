/** The Python package as its users get it: a wheel in a virtual environment of its own. */
import { execFile, spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir } from 'node:fs/promises'
import path from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { promisify } from 'node:util'
import { pythonPackages } from './python-packages.ts'

const MAX_OUTPUT_BYTES = 64 * 1_048_576
const run = promisify(execFile)

/** Programs that check the package; its users need none of them. */
const toolPackages = ['build==1.6.1', 'hatchling==1.33.0', 'mypy==2.4.1', 'pyright==1.1.414', 'twine==7.0.0']

export interface PythonTools {
  /** Runs a module of the tools and returns what it printed; throws that if it fails. */
  tool(module: string, args: readonly string[], cwd: string): Promise<string>
}

export async function pythonTools(): Promise<PythonTools> {
  const PYTHONPATH = await pythonPackages('python-package-tools-1', toolPackages)
  return { tool: (module, args, cwd) => python('python3', ['-m', module, ...args], { PYTHONPATH }, cwd) }
}

export async function python(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  cwd: string = process.cwd(),
): Promise<string> {
  try {
    const options = { cwd, maxBuffer: MAX_OUTPUT_BYTES, env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', ...env } }
    return (await run(program, [...args], options)).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${program} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error })
  }
}

/** Builds wheel and sdist; returns the paths of the files. */
export async function buildPackage(tools: PythonTools, outDir: string): Promise<{ wheel: string; sdist: string }> {
  await mkdir(outDir, { recursive: true })
  // Without isolation: the tools have the builder of pyproject.toml, in its version.
  await tools.tool('build', ['--no-isolation', '--outdir', outDir, path.resolve('python')], process.cwd())
  const names = await readdir(outDir)
  const file = (end: string): string => path.join(outDir, names.find((name) => name.endsWith(end)) ?? `no file ${end}`)
  return { wheel: file('.whl'), sdist: file('.tar.gz') }
}

/** A new virtual environment with the wheel, what it depends on, and nothing else but `others`. Returns its Python. */
export async function environmentWith(folder: string, wheel: string, others: readonly string[]): Promise<string> {
  await run('python3', ['-m', 'venv', folder])
  const program = path.join(folder, 'bin', 'python')
  await python(program, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', wheel, ...others])
  return program
}

/** The fields that the programs of `test/clients/` write. */
export type Line = Readonly<Record<string, string | undefined>>

export interface Talk {
  /** Sends a line and returns the next line of the program, as JSON. */
  ask(line: unknown): Promise<Line>
  next(): Promise<Line>
  close(): Promise<void>
}

/** A program that speaks lines of JSON. */
export function talkTo(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Talk {
  const child = spawn(program, [...args], { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] })
  const lines = linesOf(child)
  let problems = ''
  child.stderr.on('data', (text: Buffer) => (problems += text.toString()))
  const next = async (): Promise<Line> => {
    const { value, done } = await lines.next()
    if (done === true) throw new Error(`${args.join(' ')} ended: ${problems}`)
    return JSON.parse(value) as Line
  }
  return {
    next,
    ask: (line) => {
      child.stdin.write(`${JSON.stringify(line)}\n`)
      return next()
    },
    close: async () => {
      child.stdin.end()
      if (child.exitCode === null && child.kill()) await once(child, 'exit')
    },
  }
}

function linesOf(child: ChildProcessByStdio<Writable, Readable, Readable>): AsyncIterator<string> {
  const reader: Interface = createInterface({ input: child.stdout })
  return reader[Symbol.asyncIterator]()
}
