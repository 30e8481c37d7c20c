/**
 * The programs of a Kubernetes cluster, built from their Go modules: no distribution packages them. They are kept by
 * version in a folder outside the checkout, so only the first run builds, for about ten minutes of one processor.
 */
import { execFile, spawn } from 'node:child_process'
import { accessSync, constants, existsSync } from 'node:fs'
import { copyFile, link, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { systemClock } from '../../src/base/instant.ts'
import { waitFor } from './wait.ts'

const VERSION = 'v1.36.3'
/** The libraries of a release have versions of their own. */
const LIBRARY_VERSION = VERSION.replace('v1.', 'v0.')
const built = ['kube-apiserver', 'kube-scheduler', 'kube-controller-manager', 'kubelet', 'kube-proxy'] as const
export type KubeProgram = (typeof built)[number]

const installed = ['etcd', 'containerd', 'ctr', 'runc', 'openssl', 'ip', 'nft', 'nsenter', 'docker-registry', 'busybox']
const folders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
export const CNI_FOLDER = '/usr/lib/cni'
const cniPlugins = ['bridge', 'host-local', 'loopback']
const BUILD_MS = 60 * 60_000
/** A builder touches its lock this often; an older lock was left by one that was killed. */
const LOCK_BEAT_MS = 5_000
const LOCK_DEAD_MS = 60_000

/** The reason no cluster can run here; undefined if one can. */
export function whyNoKubernetes(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'it needs root on Linux'
  const missing = installed.filter((program) => programAt(program) === undefined)
  if (missing.length > 0) return `it needs ${missing.join(', ')}`
  const plugins = cniPlugins.filter((plugin) => !isProgram(path.join(CNI_FOLDER, plugin)))
  if (plugins.length > 0) return `it needs the CNI plugins ${plugins.join(', ')}`
  if (!isBuilt() && goProgram() === undefined) return 'it needs go, to build Kubernetes'
  return undefined
}

/** The folder with the programs, built if necessary by one of the processes that ask. */
export async function kubePrograms(): Promise<string> {
  const folder = programFolder()
  const lock = `${folder}.lock`
  await mkdir(path.dirname(folder), { recursive: true })
  await waitFor(
    `Kubernetes ${VERSION} to be built`,
    async () => {
      if (isBuilt()) return true
      if (!(await takeLock(lock))) return false
      const beat = setInterval(() => void writeFile(path.join(lock, 'beat'), ''), LOCK_BEAT_MS)
      try {
        if (!isBuilt()) await build(folder)
      } finally {
        clearInterval(beat)
        await rm(lock, { recursive: true, force: true })
      }
      return true
    },
    BUILD_MS,
  )
  return folder
}

export function programAt(program: string): string | undefined {
  return folders.map((folder) => path.join(folder, program)).find(isProgram)
}

/** Built programs, outside the checkout. */
export function cacheFolder(): string {
  return path.join(process.env['XDG_CACHE_HOME'] ?? path.join(os.homedir(), '.cache'), 'berth')
}

function programFolder(): string {
  return path.join(cacheFolder(), `kubernetes-${VERSION}-${process.arch}`)
}

function isBuilt(): boolean {
  return built.every((program) => existsSync(path.join(programFolder(), program)))
}

export function goProgram(): string | undefined {
  return [...(process.env['PATH'] ?? '').split(':'), '/usr/local/go/bin']
    .map((folder) => path.join(folder, 'go'))
    .find(isProgram)
}

async function takeLock(lock: string): Promise<boolean> {
  try {
    await mkdir(lock)
    return true
  } catch {
    const beat = await stat(path.join(lock, 'beat')).catch(() => stat(lock).catch(() => undefined))
    if (beat !== undefined && systemClock.now() - beat.mtimeMs > LOCK_DEAD_MS)
      await rm(lock, { recursive: true, force: true })
    return false
  }
}

async function build(folder: string): Promise<void> {
  const work = await mkdtemp(path.join(path.dirname(folder), 'build-'))
  try {
    process.stderr.write(`Building Kubernetes ${VERSION} into ${folder}; this takes some minutes, once.\n`)
    await writeModule(work)
    const out = path.join(work, 'kubernetes')
    await go(work, ['build', '-mod=mod', ...cheapBuild, '-ldflags', versionFlags(), '-o', out, '.'])
    await mkdir(folder, { recursive: true })
    for (const program of built) {
      const named = path.join(work, program)
      await link(out, named)
      await rename(named, path.join(folder, program))
    }
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

/**
 * A main module of our own: the published module replaces its libraries by folders of its repository, and such lines
 * only count in a main module.
 */
async function writeModule(work: string): Promise<void> {
  const described = await go(work, ['mod', 'download', '-json', `k8s.io/kubernetes@${VERSION}`])
  const { GoMod: file } = JSON.parse(described) as { GoMod: string }
  const lines = (await readFile(file, 'utf8')).split('\n')
  const isNeeded = (line: string): boolean => !line.includes('k8s.io/sample-')
  const required = lines
    .filter((line) => /^\t\S+ v\S+/.test(line) && isNeeded(line))
    .map((line) => `require ${line.trim().replace(/^(k8s\.io\/\S+) v0\.0\.0(?=\s|$)/, `$1 ${LIBRARY_VERSION}`)}`)
  const replaced = lines.filter(isNeeded).flatMap((line) => {
    const [, name] = /^\t(k8s\.io\/\S+) => \.\/staging/.exec(line) ?? []
    return name === undefined ? [] : [`replace ${name} => ${name} ${LIBRARY_VERSION}`]
  })
  const goVersion = lines.find((line) => /^go \d/.test(line)) ?? 'go 1.26.0'
  const debug = lines.filter((line) => line.startsWith('godebug '))
  const text = ['module berth.test/kubernetes', goVersion, ...debug, `require k8s.io/kubernetes ${VERSION}`]
  await writeFile(path.join(work, 'go.mod'), [...text, ...new Set([...required, ...replaced]), ''].join('\n'))
  await copyFile(path.join(import.meta.dirname, 'kube-main.go'), path.join(work, 'main.go'))
}

function versionFlags(): string {
  const at = 'k8s.io/component-base/version'
  const minor = VERSION.split('.')[1] ?? ''
  return [
    '-s -w',
    `-X ${at}.gitVersion=${VERSION}`,
    `-X ${at}.gitMajor=1`,
    `-X ${at}.gitMinor=${minor}`,
    `-X ${at}.gitTreeState=clean`,
  ].join(' ')
}

/**
 * Without inlining and debug information a large package takes half of the compiler's time. Go's own packages, whose
 * speed all others depend on, keep inlining.
 */
export const cheapBuild: readonly string[] = [
  '-trimpath',
  '-p=2',
  '-gcflags=all=-l -dwarf=false',
  '-gcflags=std=-dwarf=false',
]

/** Garbage collection was a fifth of the compiler's time. The largest package needs 0.8 GB without. */
const compilerEnv = { GOGC: 'off', GOMEMLIMIT: '2GiB' }

/** Nicely: tests that need no cluster go on meanwhile. */
export function go(work: string, args: readonly string[]): Promise<string> {
  const program = goProgram() ?? 'go'
  const fixed = { CGO_ENABLED: '0', GOTOOLCHAIN: 'local', GOFLAGS: '-buildvcs=false' }
  const env = { ...process.env, ...compilerEnv, ...fixed }
  return new Promise((resolve, reject) => {
    const child = spawn('nice', ['-n', '5', program, ...args], { cwd: work, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    let error = ''
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (error = (error + chunk.toString()).slice(-20_000)))
    const stop = (): void => void child.kill()
    process.once('exit', stop)
    child.once('close', () => process.off('exit', stop))
    child.once('error', reject)
    child.once('exit', (code) =>
      code === 0 ? resolve(out) : reject(new Error(`go ${args[0] ?? ''} ended with ${code}:\n${error}`)),
    )
  })
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

export const execProgram = promisify(execFile)
