/**
 * The programs of a Kubernetes cluster, built from their Go modules: no distribution packages them. They are kept by
 * version in a folder outside the checkout, so only the first run builds, for about ten minutes of one processor.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, link, readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder } from '../../scripts/cache-folder.ts'
import { buildOnce, cheapBuild, go, goProgram, isProgram } from './go-build.ts'

const VERSION = 'v1.36.3'
/** The libraries of a release have versions of their own. */
const LIBRARY_VERSION = VERSION.replace('v1.', 'v0.')
const built = ['kube-apiserver', 'kube-scheduler', 'kube-controller-manager', 'kubelet', 'kube-proxy'] as const
export type KubeProgram = (typeof built)[number]

const installed = ['etcd', 'containerd', 'ctr', 'runc', 'openssl', 'ip', 'nft', 'nsenter', 'docker-registry', 'busybox']
const folders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
export const CNI_FOLDER = '/usr/lib/cni'
const cniPlugins = ['bridge', 'host-local', 'loopback']

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

/** The folder with the programs, built if necessary. */
export async function kubePrograms(): Promise<string> {
  const folder = programFolder()
  await buildOnce(`Kubernetes ${VERSION}`, folder, isBuilt, build)
  return folder
}

export function programAt(program: string): string | undefined {
  return folders.map((folder) => path.join(folder, program)).find(isProgram)
}

function programFolder(): string {
  return path.join(cacheFolder(), `kubernetes-${VERSION}-${process.arch}`)
}

function isBuilt(): boolean {
  return built.every((program) => existsSync(path.join(programFolder(), program)))
}

async function build(work: string, folder: string): Promise<void> {
  await writeModule(work)
  const out = path.join(work, 'kubernetes')
  await go(work, ['build', '-mod=mod', ...cheapBuild, '-ldflags', versionFlags(), '-o', out, '.'])
  for (const program of built) {
    const named = path.join(work, program)
    await link(out, named)
    await rename(named, path.join(folder, program))
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

export const execProgram = promisify(execFile)
