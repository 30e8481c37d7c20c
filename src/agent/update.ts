/**
 * Updates an installed agent to the version of its server. The new version is downloaded, verified and tried before
 * anything changes; then the agent is restarted by its supervisor. A version that does not connect to the server in time
 * is replaced by the one before.
 */
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { anyRoom } from '../artifacts/download/disk-budget.ts'
import { makeDownloader, type Downloader } from '../artifacts/download/downloader.ts'
import type { Address, DownloadLimits } from '../artifacts/download/request.ts'
import { limits } from '../base/limits.ts'
import { agentRelease, type AgentRelease } from '../contract/agent.ts'
import type { Result } from '../contract/result.ts'
import { runProgram } from '../runtimes/run-program.ts'
import type { AgentStatus } from './agent.ts'
import { AgentError } from './agent-error.ts'
import { askControl } from './control.ts'
import type { AgentFolder } from './folder.ts'
import { removeVersions, useVersion, versionFolder, type Installation } from './installation.ts'

export interface UpdateOptions {
  readonly installation: Installation
  readonly server: string
  readonly folder: AgentFolder
  /** How long a restarted agent may take to connect. */
  readonly waitMs: number
  readonly progress: (message: string) => void
}

export type UpdateOutcome =
  /** `isRunning`: the agent runs it and is connected. Otherwise no agent runs. */
  | { readonly kind: 'updated'; readonly isRunning: boolean }
  /** `isRunning`: the version before runs again. */
  | { readonly kind: 'rolled-back'; readonly isRunning: boolean }

const READ_MS = 15_000
/** The maximum size of the text of a release or a checksum. */
const MAX_TEXT_BYTES = 10_000
const UNPACK_MS = 120_000
const TRY_MS = 30_000
const POLL_MS = 200
/** The version before may take this long to be back, however little time the new one had. */
const BACK_MS = 60_000

export async function readRelease(server: string): Promise<AgentRelease> {
  const signal = AbortSignal.timeout(READ_MS)
  const text = { accept: 'application/json', maxBytes: MAX_TEXT_BYTES, signal }
  // One attempt: a person waits for the answer.
  const answer = await withDownloader({ maxIdleAttempts: 1 }, (downloader) =>
    downloader.json({ ...addressOf(server, '/agent/latest.json'), ...text }),
  )
  const parsed = agentRelease.safeParse(answer)
  if (parsed.success) return parsed.data
  throw new AgentError(`${server} sent an invalid answer about its version.`)
}

export async function updateAgent(options: UpdateOptions, release: AgentRelease): Promise<UpdateOutcome> {
  const { installation, folder, progress } = options
  await fetchVersion(options, release)
  useVersion(installation, release.build)
  progress(`Installed ${release.build}.`)
  if (!(await restart(folder))) {
    removeVersions(installation, [release.build, installation.build])
    return { kind: 'updated', isRunning: false }
  }
  progress('Restarting the agent.')
  if (await waitConnected(folder, release.build, options.waitMs)) {
    removeVersions(installation, [release.build, installation.build])
    return { kind: 'updated', isRunning: true }
  }
  progress(`${release.build} did not connect to the server in time. Going back to ${installation.build}.`)
  useVersion(installation, installation.build)
  // One that came up but cannot connect; one that ends by itself is started again by its supervisor anyway.
  if ((await readVersion(folder)) === release.build) await restart(folder)
  const isRunning = await waitConnected(folder, installation.build, Math.max(options.waitMs, BACK_MS))
  removeVersions(installation, [installation.build])
  return { kind: 'rolled-back', isRunning }
}

/** Whether an agent of this version is connected before the time is over. */
export async function waitConnected(folder: AgentFolder, version: string, waitMs: number): Promise<boolean> {
  const until = performance.now() + waitMs
  for (;;) {
    const status = await readStatus(folder)
    if (status?.connected === true && status.version === version) return true
    if (performance.now() > until) return false
    await delay(POLL_MS)
  }
}

async function readVersion(folder: AgentFolder): Promise<string | undefined> {
  return (await readStatus(folder))?.version
}

/** undefined: no agent answers. It may be about to end or to start. */
async function readStatus(folder: AgentFolder): Promise<AgentStatus | undefined> {
  const answer = await askControl(folder, { command: 'status' }).catch(() => undefined)
  return answer?.value as AgentStatus | undefined
}

/** false: no agent is running. */
async function restart(folder: AgentFolder): Promise<boolean> {
  return (await askControl(folder, { command: 'restart' })) !== undefined
}

async function fetchVersion({ installation, server, progress }: UpdateOptions, release: AgentRelease): Promise<void> {
  const { build } = release
  const target = versionFolder(installation, build)
  // Left by an update that was interrupted after it was complete.
  if (fs.existsSync(target)) return tryProgram(target, build)
  const platform = platformOf(installation, release)
  const work = fs.mkdtempSync(path.join(path.dirname(target), 'new.'))
  try {
    progress(`Downloading ${build}.`)
    const archive = path.join(work, 'berth.tar.gz')
    await downloadBundle(server, `/agent/${build}/${platform}.tar.gz`, archive)
    const unpacked = path.join(work, 'berth')
    fs.mkdirSync(unpacked, { mode: 0o755 })
    const signal = AbortSignal.timeout(UNPACK_MS)
    await runProgram('tar', ['-xzf', archive, '-C', unpacked], { signal, timeoutMs: UNPACK_MS })
    if (platform === 'any') linkNode(unpacked)
    await tryProgram(unpacked, build)
    syncFiles(unpacked)
    fs.renameSync(unpacked, target)
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
}

/** The Node that runs this program runs the next one too. */
function linkNode(unpacked: string): void {
  fs.mkdirSync(path.join(unpacked, 'node', 'bin'), { recursive: true })
  fs.symlinkSync(process.execPath, path.join(unpacked, 'node', 'bin', 'node'))
}

function platformOf({ platform }: Installation, release: AgentRelease): string {
  if (release.platforms.includes(platform)) return platform
  throw new AgentError(`The server has no Node for ${platform} any more.`, [
    'Install Node 20.19 or newer, then run the install command again.',
  ])
}

/** A version that does not even start is not installed. */
async function tryProgram(folder: string, build: string): Promise<void> {
  const signal = AbortSignal.timeout(TRY_MS)
  try {
    await runProgram('sh', [path.join(folder, 'bin', 'berth'), '--version'], { signal, timeoutMs: TRY_MS })
  } catch (error) {
    throw new AgentError(`${build} does not start on this machine; nothing was changed.`, [], error)
  }
}

async function downloadBundle(server: string, at: string, target: string): Promise<void> {
  const signal = AbortSignal.timeout(limits.agentDownloadMs)
  const text = { accept: '*/*', maxBytes: MAX_TEXT_BYTES, signal }
  const file = { target, bytes: null, maxBytes: limits.agentBundleBytes, room: anyRoom, signal, onBytes: () => {} }
  await withDownloader({}, async (downloader) => {
    const checksum = await downloader.text({ ...addressOf(server, `${at}.sha256`), ...text })
    if (!checksum.ok) return checksum
    const digest = { algorithm: 'sha256', hex: checksum.value.trim() } as const
    return downloader.file({ ...addressOf(server, at), ...file, digest })
  })
}

async function withDownloader<T>(
  downloadLimits: Partial<DownloadLimits>,
  work: (downloader: Downloader) => Promise<Result<T>>,
): Promise<T> {
  const downloader = makeDownloader({ allowPrivate: false, limits: downloadLimits })
  try {
    const result = await work(downloader)
    if (result.ok) return result.value
    throw new AgentError(result.message, ['Check the network, and that the server runs. Then try again.'])
  } finally {
    await downloader.close()
  }
}

/** The server itself may have a private address. */
function addressOf(server: string, at: string): Address {
  return { url: `${server}${at}`, trustedOrigin: new URL(server).origin, authorization: null }
}

/** A power failure after the link has changed must not leave empty files behind it. */
function syncFiles(folder: string): void {
  for (const entry of fs.readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() && !entry.isDirectory()) continue
    const opened = fs.openSync(path.join(entry.parentPath, entry.name), 'r')
    fs.fsyncSync(opened)
    fs.closeSync(opened)
  }
}
