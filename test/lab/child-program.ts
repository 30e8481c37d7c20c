/** Processes that crash suites start from one bundled file, which takes a third of the time of many files, and kill. */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { rolldown } from 'rolldown'
import { fileURLToPath } from 'node:url'

type Main = (args: readonly string[]) => Promise<unknown>

const bundled = new Map<string, Promise<string>>()

/** Returns the path of a program that calls `main`, an export of `file` in this folder, with its arguments. */
export function bundleChild(file: string, main: Main): Promise<string> {
  const known = bundled.get(file)
  if (known !== undefined) return known
  const bundle = writeBundle(file, main.name)
  bundled.set(file, bundle)
  return bundle
}

async function writeBundle(file: string, name: string): Promise<string> {
  const source = fileURLToPath(new URL(file, import.meta.url))
  // Beside node_modules, where it finds the packages that are not bundled.
  const folder = fileURLToPath(new URL('../../node_modules/.cache/', import.meta.url))
  const base = `${folder}berth-${file.replace(/\.ts$/, '')}`
  const [input, output] = [`${base}-entry.mjs`, `${base}.mjs`]
  await mkdir(folder, { recursive: true })
  await writeFile(input, `import { ${name} } from ${JSON.stringify(source)}\nawait ${name}(process.argv.slice(2))\n`)
  const bundle = await rolldown({ input, platform: 'node', external: /^[^./]/ })
  await bundle.write({ file: output, format: 'esm', codeSplitting: false })
  await bundle.close()
  return output
}

/** Resolves with the first message of the child, which it sends when it is ready. */
export async function startChild(
  program: string,
  args: readonly string[],
): Promise<{ readonly child: ChildProcess; readonly message: unknown }> {
  const child = fork(program, args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`the child ended with ${String(code)}`)
  })
  const [message] = (await Promise.race([once(child, 'message'), failed])) as unknown[]
  // It will be killed.
  failed.catch(() => undefined)
  return { child, message }
}

export async function killChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}
