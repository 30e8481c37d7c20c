/**
 * The agent as servers hand it out: one archive with the `berth` command, which needs no packages, and with the Node
 * that this server runs on, for machines of the same platform without one. An archive is made on first use, kept in the
 * data folder, and the same on every server with the same build.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { Transform } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { createGzip, gzipSync } from 'node:zlib'
import { pack, type Pack } from 'tar-stream'
import packageJson from '../../../package.json' with { type: 'json' }
import { findNodeLicense } from '../../artifacts/oci/node-license.ts'
import { limits } from '../../base/limits.ts'
import type { AgentRelease } from '../../contract/agent.ts'
import { errorText } from '../data/data-folder.ts'

export interface AgentArchive {
  readonly file: string
  readonly sha256: string
  readonly bytes: number
}

export interface AgentBundles {
  /** undefined: the command is not built. */
  release(): AgentRelease | undefined
  /** undefined: not this build, or not for that platform. */
  archive(build: string, platform: string): Promise<AgentArchive | undefined>
}

export interface AgentBundleOptions {
  readonly dataDir: string
  /** The folder with the built command. undefined: where a build puts it. */
  readonly programDir?: string | undefined
  /** null: archives have no Node. */
  readonly node?: NodeProgram | null
  readonly onError: (message: string) => void
}

export interface NodeProgram {
  readonly file: string
  readonly license: string
  readonly version: string
  readonly platform: string
}

const ANY = 'any'
/** Most of the best compression at half of its time. */
const GZIP_LEVEL = 6
/** A tar archive ends with two empty blocks. */
const TAR_END_BYTES = 1_024
const COMMAND_FILE = /^cli(-[\w.-]+)?\.(mjs|txt)$/
const CACHE = 'agent-archives'

/** The Node beside the command, or that of the machine. Through a link to this file, the folders are those of its target. */
const LAUNCHER = `#!/bin/sh
file=$0
while [ -L "$file" ]; do
  target=$(readlink "$file")
  case $target in
    /*) file=$target ;;
    *) file=$(dirname "$file")/$target ;;
  esac
done
root=$(cd "$(dirname "$file")/.." && pwd -P) || exit 1
node=$root/node/bin/node
[ -x "$node" ] || node=node
exec "$node" "$root/dist/cli.mjs" "$@"
`

interface Command {
  readonly dir: string
  readonly names: readonly string[]
  readonly release: AgentRelease
  /** The name of the compressed Node, for archives that have one. */
  readonly nodePart: string
}

export function makeAgentBundles(options: AgentBundleOptions): AgentBundles {
  const node = options.node === undefined ? findNode() : (options.node ?? undefined)
  let command: Command | undefined
  const making = new Map<string, Promise<AgentArchive | undefined>>()
  const find = (): Command | undefined => (command ??= readCommand(options.programDir, node))
  const make = async (command: Command, platform: string): Promise<AgentArchive | undefined> => {
    try {
      return await openArchive(
        path.join(options.dataDir, CACHE),
        command,
        platform,
        platform === ANY ? undefined : node,
      )
    } catch (error) {
      making.delete(platform)
      options.onError(`cannot make the agent for ${platform}: ${errorText(error)}`)
      return undefined
    }
  }
  return {
    release: () => find()?.release,
    archive: async (build, platform) => {
      const command = find()
      if (command?.release.build !== build || !command.release.platforms.includes(platform)) return undefined
      const archive = making.get(platform) ?? make(command, platform)
      making.set(platform, archive)
      return archive
    },
  }
}

/** undefined: Node is not a single file here, or its license is not beside it. */
function findNode(): NodeProgram | undefined {
  const { node_shared: isShared } = process.config.variables as { node_shared?: boolean }
  if (isShared === true) return undefined
  const file = fs.realpathSync(process.execPath)
  const license = findNodeLicense(file)
  if (license === undefined) return undefined
  return { file, license, version: process.version, platform: `${process.platform}-${process.arch}` }
}

/** Beside the bundle in dist/, or in dist/ above the sources. Checked again each time until the build exists. */
function findProgramFolder(chosenFolder: string | undefined): string | undefined {
  const isThere = (folder: string): boolean => fs.existsSync(path.join(folder, 'cli.mjs'))
  if (chosenFolder !== undefined) return isThere(chosenFolder) ? chosenFolder : undefined
  let dir = path.dirname(fileURLToPath(import.meta.url))
  if (isThere(dir)) return dir
  while (!isThere(path.join(dir, 'dist'))) {
    const parent = path.dirname(dir)
    if (parent === dir) return undefined
    dir = parent
  }
  return path.join(dir, 'dist')
}

function readCommand(chosenFolder: string | undefined, node: NodeProgram | undefined): Command | undefined {
  const dir = findProgramFolder(chosenFolder)
  if (dir === undefined) return undefined
  const names = fs
    .readdirSync(dir)
    .filter((name) => COMMAND_FILE.test(name))
    .toSorted()
  const hash = createHash('sha256').update(`${LAUNCHER}\0${node?.version} ${node?.platform}\0`)
  for (const name of names) {
    const content = fs.readFileSync(path.join(dir, name))
    hash.update(`${name}\0${content.length}\0`).update(content)
  }
  const { version } = packageJson
  const build = `${version}-${hash.digest('hex').slice(0, 12)}`
  const platforms = [ANY, ...(node === undefined ? [] : [node.platform])]
  const nodePart = `node-${node?.version}-${node?.platform}.gz`
  return { dir, names, release: { version, build, platforms }, nodePart }
}

async function openArchive(
  cache: string,
  command: Command,
  platform: string,
  node: NodeProgram | undefined,
): Promise<AgentArchive> {
  const folder = path.join(cache, command.release.build)
  const file = path.join(folder, `${platform}.tar.gz`)
  const facts = `${file}.json`
  if (fs.existsSync(facts) && fs.existsSync(file))
    return { file, ...(JSON.parse(fs.readFileSync(facts, 'utf8')) as Pick<AgentArchive, 'sha256' | 'bytes'>) }
  removeOthers(cache, [command.release.build, command.nodePart, `${command.nodePart}.unfinished`])
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  const unfinished = `${file}.unfinished`
  try {
    const packed = node === undefined ? undefined : await openNodePart(path.join(cache, command.nodePart), node)
    const written = await writeArchive(unfinished, await packCommand(command, platform, node), packed)
    if (written.bytes > limits.agentBundleBytes)
      throw new Error(`it has ${written.bytes} bytes, more than ${limits.agentBundleBytes}`)
    fs.renameSync(unfinished, file)
    fs.writeFileSync(`${facts}.unfinished`, JSON.stringify(written))
    fs.renameSync(`${facts}.unfinished`, facts)
    return { file, ...written }
  } finally {
    fs.rmSync(unfinished, { force: true })
  }
}

/** Removes what earlier versions of this server left. */
function removeOthers(cache: string, current: readonly string[]): void {
  const all = fs.existsSync(cache) ? fs.readdirSync(cache) : []
  for (const name of all.filter((one) => !current.includes(one))) fs.rmSync(path.join(cache, name), { recursive: true })
}

/**
 * The second half of an archive. It is kept across versions of the server: compressing Node takes five seconds of CPU
 * time, everything else a quarter of a second.
 */
async function openNodePart(file: string, node: NodeProgram): Promise<string> {
  if (fs.existsSync(file)) return file
  const archive = pack()
  const fill = async (): Promise<void> => {
    await addFile(archive, 'node/LICENSE', node.license)
    await addFile(archive, 'node/bin/node', node.file, 0o755)
    archive.finalize()
  }
  const unfinished = `${file}.unfinished`
  try {
    const output = fs.createWriteStream(unfinished, { mode: 0o600 })
    await Promise.all([pipeline(archive, createGzip({ level: GZIP_LEVEL }), output), fill()])
    fs.renameSync(unfinished, file)
  } finally {
    fs.rmSync(unfinished, { force: true })
  }
  return file
}

/** The first half of an archive. It has an end only if no Node follows. */
async function packCommand(
  { dir, names, release }: Command,
  platform: string,
  node: NodeProgram | undefined,
): Promise<Buffer> {
  const archive = pack()
  const facts = { version: release.version, build: release.build, platform, node: node?.version ?? null }
  const fill = async (): Promise<void> => {
    await addText(archive, 'bundle.json', `${JSON.stringify(facts, null, 2)}\n`)
    await addText(archive, 'bin/berth', LAUNCHER, 0o755)
    for (const name of names) await addFile(archive, `dist/${name}`, path.join(dir, name))
    archive.finalize()
  }
  const [whole] = await Promise.all([buffer(archive), fill()])
  return gzipSync(node === undefined ? whole : whole.subarray(0, -TAR_END_BYTES), { level: GZIP_LEVEL })
}

/** Both halves are compressed by themselves; gzip files may be joined like this. */
async function writeArchive(
  target: string,
  command: Buffer,
  nodePart: string | undefined,
): Promise<Pick<AgentArchive, 'sha256' | 'bytes'>> {
  const hash = createHash('sha256')
  let bytes = 0
  const count = new Transform({
    transform: (chunk: Buffer, _, done) => {
      hash.update(chunk)
      bytes += chunk.length
      done(null, chunk)
    },
  })
  const parts = async function* (): AsyncGenerator<Buffer> {
    yield command
    if (nodePart !== undefined) yield* fs.createReadStream(nodePart) as AsyncIterable<Buffer>
  }
  await pipeline(parts, count, fs.createWriteStream(target, { mode: 0o600 }))
  return { sha256: hash.digest('hex'), bytes }
}

/** A fixed time and owner: the same files make the same archive. `tar` warns about 1970. */
function headerOf(name: string, size: number, mode: number) {
  return { name, size, mode, uid: 0, gid: 0, mtime: new Date(Date.UTC(1980, 0)) }
}

function addText(archive: Pack, name: string, text: string, mode = 0o644): Promise<void> {
  return new Promise((resolve, reject) => {
    archive.entry(headerOf(name, Buffer.byteLength(text), mode), text, (error) => (error ? reject(error) : resolve()))
  })
}

async function addFile(archive: Pack, name: string, file: string, mode = 0o644): Promise<void> {
  const { size } = fs.statSync(file)
  const entry = archive.entry(headerOf(name, size, mode))
  await pipeline(fs.createReadStream(file), entry)
}
