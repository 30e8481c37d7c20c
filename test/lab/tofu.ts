/**
 * Real OpenTofu with our provider, both built from Go modules and kept outside the checkout. The first run builds OpenTofu
 * for about ten minutes of two processors.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { cp, mkdtemp, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { cacheFolder } from '../../scripts/cache-folder.ts'
import { removeFolder } from '../harness/leftover.ts'
import { buildOnce, cheapBuild, go, goProgram } from './go-build.ts'

const MODULE = 'github.com/opentofu/opentofu'
const VERSION = 'v1.12.6'
const SOURCES = path.resolve('terraform')
const MAX_OUTPUT_CHARS = 64 * 1_048_576

export function whyNoTofu(): string | undefined {
  return goProgram() === undefined ? 'it needs go, to build OpenTofu and the provider' : undefined
}

/** The program `tofu`, built if necessary. */
export async function tofuProgram(): Promise<string> {
  const folder = path.join(cacheFolder(), `tofu-${VERSION}-${process.arch}`)
  const file = path.join(folder, 'tofu')
  await buildOnce(
    `OpenTofu ${VERSION}`,
    folder,
    () => existsSync(file),
    async (work) => {
      await writeFile(path.join(work, 'go.mod'), 'module berth.test/tofu\n\ngo 1.26.6\n')
      const { Dir } = JSON.parse(await go(work, ['mod', 'download', '-json', `${MODULE}@${VERSION}`])) as {
        Dir: string
      }
      // Its go.mod replaces a module, so it is built from a copy: `go install` would refuse.
      const copy = path.join(work, 'source')
      await cp(Dir, copy, { recursive: true })
      const out = path.join(work, 'tofu')
      await go(copy, ['build', ...cheapBuild, '-o', out, './cmd/tofu'])
      await rename(out, file)
    },
  )
  return file
}

/** The folder with our provider, built from this checkout. */
export async function providerFolder(): Promise<string> {
  const hash = createHash('sha256')
  for (const name of readdirSync(SOURCES, { recursive: true, encoding: 'utf8' }).toSorted())
    if (/(\.go|go\.mod|go\.sum)$/.test(name) && !name.endsWith('_test.go'))
      hash.update(name).update(readFileSync(path.join(SOURCES, name)))
  const folder = path.join(cacheFolder(), `terraform-provider-berth-${hash.digest('hex').slice(0, 16)}`)
  const file = path.join(folder, 'terraform-provider-berth')
  await buildOnce(
    'the Terraform provider',
    folder,
    () => existsSync(file),
    async (work) => {
      const out = path.join(work, 'provider')
      await go(SOURCES, ['build', '-trimpath', '-o', out, '.'])
      await rename(out, file)
    },
  )
  return folder
}

export interface TofuResult {
  readonly code: number | null
  readonly output: string
}

export interface TofuProject {
  readonly folder: string
  /** Replaces the configuration. */
  write(configuration: string): Promise<void>
  run(
    args: readonly string[],
    options?: { env?: Record<string, string>; onOutput?: (text: string, kill: () => void) => void },
  ): Promise<TofuResult>
  /** Runs a command that must succeed. */
  must(...args: string[]): Promise<string>
  apply(): Promise<string>
  /** `empty`, or `changes`. */
  plan(): Promise<'empty' | 'changes'>
  /** The attributes of a resource in the state. */
  attributes(address: string): Promise<ResourceAttributes>
  addresses(): Promise<string[]>
  /** Files of creates that no later run has seen in its state. */
  openCreates(): Promise<string[]>
  close(): Promise<void>
}

const head = `terraform {
  required_providers {
    berth = { source = "berth/berth" }
  }
}
`

/** A folder with a configuration, for a server and a key. */
export async function tofuProject(url: string, key: string): Promise<TofuProject> {
  const [program, provider] = [await tofuProgram(), await providerFolder()]
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-tofu-'))
  const settings = path.join(folder, 'tofu.rc')
  await writeFile(
    settings,
    `provider_installation {\n  dev_overrides {\n    "berth/berth" = "${provider}"\n  }\n  direct {}\n}\n`,
  )
  const fixed = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    TF_CLI_CONFIG_FILE: settings,
    TF_IN_AUTOMATION: '1',
    TF_INPUT: '0',
    CHECKPOINT_DISABLE: '1',
    BERTH_URL: url,
    BERTH_KEY: key,
  }
  const run: TofuProject['run'] = (args, { env = {}, onOutput } = {}) =>
    new Promise((resolve, reject) => {
      // A group of its own, so that a kill reaches the provider, too.
      const child = spawn(program, args, { cwd: folder, env: { ...fixed, ...env }, detached: true })
      const kill = (): void => void process.kill(-(child.pid ?? 0), 'SIGKILL')
      let output = ''
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (chunk: Buffer) => {
          output = (output + chunk.toString()).slice(-MAX_OUTPUT_CHARS)
          onOutput?.(output, kill)
        })
      child.once('error', reject)
      child.once('close', (code) => resolve({ code, output }))
    })
  const must: TofuProject['must'] = async (...args) => {
    const { code, output } = await run(args)
    if (code !== 0) throw new Error(`tofu ${args.join(' ')} ended with ${code}:\n${output}`)
    return output
  }
  const resources = async (): Promise<StateResource[]> => {
    const state = JSON.parse(await readFile(path.join(folder, 'terraform.tfstate'), 'utf8')) as {
      resources: StateResource[]
    }
    return state.resources.filter(({ mode }) => mode === 'managed')
  }
  return {
    folder,
    run,
    must,
    write: (configuration) => writeFile(path.join(folder, 'main.tf'), head + configuration),
    apply: () => must('apply', '-auto-approve', '-no-color'),
    plan: async () => {
      const { code, output } = await run(['plan', '-detailed-exitcode', '-no-color'])
      if (code !== 0 && code !== 2) throw new Error(`tofu plan ended with ${code}:\n${output}`)
      return code === 0 ? 'empty' : 'changes'
    },
    attributes: async (address) => {
      const resource = (await resources()).find(({ type, name }) => `${type}.${name}` === address)
      const [instance] = resource?.instances ?? []
      if (instance === undefined) throw new Error(`the state has no ${address}`)
      return instance.attributes
    },
    addresses: async () =>
      (await resources()).flatMap(({ type, name, instances }) => instances.map(() => `${type}.${name}`)),
    openCreates: async () => {
      const journal = path.join(folder, '.terraform', 'berth-creates')
      return existsSync(journal) ? await readdir(journal) : []
    },
    close: () => removeFolder(folder),
  }
}

export interface ResourceAttributes {
  readonly id: string
  readonly [name: string]: unknown
}

interface StateResource {
  readonly mode: string
  readonly type: string
  readonly name: string
  readonly instances: ReadonlyArray<{ attributes: ResourceAttributes; status?: string }>
}
