/**
 * Copies the data folder of a running server exactly. The embedded PostgreSQL is copied with its online backup: the files
 * as they are while it writes, and all WAL from the start to the end of the copy, from which the next start recovers the
 * state at the end of the copy. A temporary replication slot keeps that WAL from being recycled.
 *
 * Finished but unsettled inference requests are in the journal. A journal segment may be settled and deleted while the
 * database is copied, so segments are kept by hard links from the start and copied last. Settling counts each record
 * once, so records that are in both do no harm.
 */
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { copyFile, mkdir, readdir, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'
import { Client } from 'pg'
import { formatInstant, systemClock } from '../../base/instant.ts'
import { listSegments, segmentName } from '../../gateway/journal/journal-segment.ts'
import { WORKER_JOURNAL } from '../workers/worker-journal.ts'
import { BackupError, CHECKSUMS, digestOf, readChecksums, verifyFiles, writeChecksums } from './backup-checksums.ts'
import { readPrivateFile, syncFolder, writePrivateFile } from './data-folder.ts'

export interface BackupManifest {
  readonly format: number
  readonly startedAt: string
  readonly finishedAt: string
  readonly bytes: number
  readonly files: number
  /** Start of recovery, and the point where the copy is consistent. */
  readonly wal: { readonly from: string; readonly until: string }
  /** Whether the backup has the secret key. Without it the database cannot be used. */
  readonly hasSecretKey: boolean
}

export interface Progress {
  readonly step: 'Verified' | 'Copied'
  readonly bytes: number
  readonly totalBytes: number
}

const MANIFEST = 'backup.json'
/** The first had no checksums. */
const FORMATS: readonly number[] = [1, 2]
const CONNECT_MS = 10_000
const KEEP_JOURNAL_EVERY_MS = 200
/** Besides the database. Models are downloaded again; sockets and logs belong to the process. */
const KEPT_FILES = [
  'secret.key',
  'secret.key.old',
  'operator.key',
  'demo.key',
  'demo_ssh_key',
  'demo_ssh_key.pub',
  'gateway.id',
] as const
/** Database folders whose content belongs to the running process, or comes with the WAL. */
const EMPTY_FOLDERS = [
  'pg_wal',
  'pg_replslot',
  'pg_dynshmem',
  'pg_notify',
  'pg_serial',
  'pg_snapshots',
  'pg_stat_tmp',
  'pg_subtrans',
]
const LEFT_OUT = /^(postmaster\.(pid|opts)|backup_label(\.old)?|pg_internal\.init.*|pgsql_tmp.*)$/
const CONTROL_FILE = path.join('global', 'pg_control')

export async function backUp(
  dataDir: string,
  target: string,
  onProgress: (progress: Progress) => void,
): Promise<BackupManifest> {
  const startedAt = formatInstant(systemClock.now())
  if (fs.existsSync(target)) throw new BackupError(`${target} already exists. Choose a folder that does not exist yet.`)
  const cluster = path.join(dataDir, 'postgres')
  const client = await connect(dataDir, cluster)
  const unfinished = `${target}.unfinished-${randomBytes(4).toString('hex')}`
  const journalCopy = path.join(dataDir, `journal.backup-${randomBytes(4).toString('hex')}`)
  try {
    await mkdir(path.join(unfinished, 'postgres'), { recursive: true, mode: 0o700 })
    const journal = keepJournal(path.join(dataDir, 'journal'), journalCopy)
    const copy = new Copy(unfinished, await sizeOf(cluster), onProgress)
    let wal: BackupManifest['wal']
    try {
      wal = await copyCluster(client, cluster, path.join(unfinished, 'postgres'), copy)
    } finally {
      journal.stop()
    }
    await copyRest(dataDir, journalCopy, unfinished, copy)
    const hasSecretKey = fs.existsSync(path.join(unfinished, 'secret.key'))
    const finishedAt = formatInstant(systemClock.now())
    const manifest: BackupManifest = {
      format: 2,
      startedAt,
      finishedAt,
      bytes: copy.bytes,
      files: copy.files,
      wal,
      hasSecretKey,
    }
    writePrivateFile(unfinished, MANIFEST, `${JSON.stringify(manifest, null, 2)}\n`)
    const digest = await digestOf(path.join(unfinished, MANIFEST))
    await writeChecksums(unfinished, new Map([...copy.checksums, [MANIFEST, digest]]))
    // A backup is complete or absent.
    await rename(unfinished, target)
    syncFolder(path.dirname(path.resolve(target)))
    return manifest
  } finally {
    await client.end().catch(() => {})
    await rm(journalCopy, { recursive: true, force: true })
    await rm(unfinished, { recursive: true, force: true })
  }
}

/** Creates a new data folder for the next `berth serve`. Reads the whole backup before it writes anything. */
export async function restore(
  source: string,
  dataDir: string,
  onProgress: (progress: Progress) => void,
): Promise<BackupManifest> {
  if (fs.existsSync(dataDir))
    throw new BackupError(`${dataDir} already exists. Choose a data folder that does not exist yet.`)
  const checksums = await readChecksums(source)
  if (checksums !== undefined) {
    const totalBytes = await sizeOf(source)
    let bytes = 0
    await verifyFiles(source, checksums, (more) => onProgress({ step: 'Verified', bytes: (bytes += more), totalBytes }))
  }
  const manifest = readManifest(source, checksums !== undefined)
  const unfinished = `${dataDir}.unfinished-${randomBytes(4).toString('hex')}`
  try {
    const copy = new Copy(unfinished, manifest.bytes, onProgress)
    await mkdir(unfinished, { recursive: true, mode: 0o700 })
    await copy.folder(source, unfinished, (name) => name === MANIFEST || name === CHECKSUMS)
    if (copy.bytes !== manifest.bytes || copy.files !== manifest.files)
      throw new BackupError(
        `${source} is incomplete: it has ${copy.files} files with ${copy.bytes} bytes instead of ${manifest.files} with ${manifest.bytes}.`,
      )
    for (const [name, digest] of copy.checksums)
      if (checksums !== undefined && checksums.get(name) !== digest)
        throw new BackupError(`${name} changed while it was copied. Check the disks, and restore again.`)
    await rename(unfinished, dataDir)
    syncFolder(path.dirname(path.resolve(dataDir)))
    return manifest
  } finally {
    await rm(unfinished, { recursive: true, force: true })
  }
}

function readManifest(source: string, hasChecksums: boolean): BackupManifest {
  const text = readPrivateFile(source, MANIFEST)
  if (text === undefined) throw new BackupError(`${source} is not a finished backup: it has no ${MANIFEST}.`)
  const manifest = parseManifest(text)
  if (manifest === undefined)
    throw new BackupError(`${source} is damaged: its ${MANIFEST} cannot be read. Use another backup.`)
  if (!FORMATS.includes(manifest.format))
    throw new BackupError(`${source} was made by a newer version of Berth (format ${String(manifest.format)}).`)
  if (manifest.format > 1 && !hasChecksums)
    throw new BackupError(`${source} is incomplete: it has no ${CHECKSUMS}. Use another backup, or a whole copy.`)
  return manifest
}

function parseManifest(text: string): BackupManifest | undefined {
  try {
    return JSON.parse(text) as BackupManifest
  } catch {
    return undefined
  }
}

async function connect(dataDir: string, cluster: string): Promise<Client> {
  if (!fs.existsSync(path.join(cluster, 'PG_VERSION')))
    throw new BackupError(
      `${dataDir} has no embedded PostgreSQL. If you use DATABASE_URL, back up that database with pg_dump or pg_basebackup.`,
    )
  // PostgreSQL writes its socket folder into the fifth line.
  const socketDir = readPrivateFile(cluster, 'postmaster.pid')?.split('\n')[4]
  const client = new Client({
    host: socketDir,
    port: 5432,
    user: 'berth',
    database: 'berth',
    connectionTimeoutMillis: CONNECT_MS,
  })
  client.on('error', () => {})
  try {
    if (socketDir === undefined) throw new Error('it is not running')
    await client.connect()
    return client
  } catch (error) {
    throw new BackupError(
      `The server of ${dataDir} is not running. Start it, or copy the whole data folder while it is stopped.`,
      { cause: error },
    )
  }
}

async function copyCluster(
  client: Client,
  cluster: string,
  target: string,
  copy: Copy,
): Promise<BackupManifest['wal']> {
  const ask = async (text: string, values: unknown[] = []): Promise<Record<string, string>> =>
    (await client.query<Record<string, string>>(text, values)).rows[0] ?? {}
  await client.query('set statement_timeout = 0')
  await client.query(`select pg_create_physical_replication_slot($1, true, true)`, [`berth_backup_${process.pid}`])
  // Fast: a spread checkpoint would take minutes before the first byte is copied.
  const start = await ask(
    `select lsn::text, pg_walfile_name(lsn) as file from pg_backup_start('berth backup', true) lsn`,
  )
  await copy.folder(
    cluster,
    target,
    (name) => LEFT_OUT.test(path.basename(name)) || name === CONTROL_FILE || EMPTY_FOLDERS.includes(name),
  )
  for (const name of EMPTY_FOLDERS) await mkdir(path.join(target, name), { recursive: true, mode: 0o700 })
  await mkdir(path.join(target, 'pg_wal', 'archive_status'), { mode: 0o700 })
  await copy.file(path.join(cluster, CONTROL_FILE), path.join(target, CONTROL_FILE))
  const stop = await ask(
    `select lsn::text, pg_walfile_name(lsn) as file, labelfile from pg_backup_stop(false) as stopped (lsn, labelfile, spcmapfile)`,
  )
  const { lsn: from = '', file: first = '' } = start
  const { lsn: until = '', file: last = '', labelfile = '' } = stop
  await copy.write(path.join(target, 'backup_label'), labelfile)
  const segments = (await readdir(path.join(cluster, 'pg_wal'))).filter(
    (name) => /^[0-9A-F]{24}$/.test(name) && name >= first && name <= last,
  )
  if (!segments.includes(first) || !segments.includes(last))
    throw new BackupError(`The WAL from ${first} to ${last} is incomplete.`)
  for (const name of segments) await copy.file(path.join(cluster, 'pg_wal', name), path.join(target, 'pg_wal', name))
  return { from, until }
}

/** Links journal segments as they appear, so that they remain after the server deletes them. */
function keepJournal(journal: string, copy: string): { stop(): void } {
  const link = (folder = ''): void => {
    const from = path.join(journal, folder)
    fs.mkdirSync(path.join(copy, folder), { mode: 0o700, recursive: true })
    if (!fs.existsSync(from)) return
    // Each worker has a journal of its own.
    if (folder === '') for (const name of fs.readdirSync(from)) if (WORKER_JOURNAL.test(name)) link(name)
    for (const name of listSegments(from).map(segmentName)) {
      try {
        fs.linkSync(path.join(from, name), path.join(copy, folder, name))
      } catch (error) {
        const code = (error as NodeJS.ErrnoException).code
        // Linked before, or settled and deleted in the meantime.
        if (code !== 'EEXIST' && code !== 'ENOENT') throw error
      }
    }
  }
  link()
  const timer = setInterval(() => link(), KEEP_JOURNAL_EVERY_MS)
  return {
    stop: () => {
      clearInterval(timer)
      link()
    },
  }
}

async function copyRest(dataDir: string, journal: string, target: string, copy: Copy): Promise<void> {
  for (const name of KEPT_FILES) await copy.file(path.join(dataDir, name), path.join(target, name))
  await mkdir(path.join(target, 'journal'), { mode: 0o700 })
  await copy.folder(journal, path.join(target, 'journal'), () => false)
}

async function sizeOf(folder: string): Promise<number> {
  let bytes = 0
  for (const name of await readdir(folder, { recursive: true })) {
    const file = await stat(path.join(folder, name)).catch(() => undefined)
    if (file?.isFile()) bytes += file.size
  }
  return bytes
}

/** Copies and counts files, with the digests of the copies. Skips files deleted in the meantime: PostgreSQL deletes as it writes. */
class Copy {
  bytes = 0
  files = 0
  /** The key is the path, relative to the root. */
  readonly checksums = new Map<string, string>()
  readonly #root: string
  readonly #totalBytes: number
  readonly #onProgress: (progress: Progress) => void
  constructor(root: string, totalBytes: number, onProgress: (progress: Progress) => void) {
    this.#root = root
    this.#totalBytes = totalBytes
    this.#onProgress = onProgress
  }

  /** `leaveOut` gets paths relative to `from`. */
  async folder(from: string, to: string, leaveOut: (name: string) => boolean, below = ''): Promise<void> {
    const entries = await readdir(path.join(from, below), { withFileTypes: true }).catch(ignoreGone)
    for (const entry of entries ?? []) {
      const name = path.join(below, entry.name)
      if (leaveOut(name)) continue
      if (entry.isDirectory()) {
        await mkdir(path.join(to, name), { recursive: true, mode: 0o700 })
        await this.folder(from, to, leaveOut, name)
      } else if (entry.isFile()) await this.file(path.join(from, name), path.join(to, name))
      else throw new BackupError(`${path.join(from, name)} is neither a file nor a folder and cannot be backed up.`)
    }
  }

  async file(from: string, to: string): Promise<void> {
    try {
      await copyFile(from, to)
    } catch (error) {
      // Unless the target is gone.
      if (fs.existsSync(from)) throw error
      return ignoreGone(error)
    }
    await this.#count(to)
  }

  async write(to: string, text: string): Promise<void> {
    await fs.promises.writeFile(to, text, { mode: 0o600 })
    await this.#count(to)
  }

  async #count(file: string): Promise<void> {
    const handle = await fs.promises.open(file, 'r+')
    try {
      await handle.datasync()
      this.bytes += (await handle.stat()).size
    } finally {
      await handle.close()
    }
    await fs.promises.chmod(file, 0o600)
    this.checksums.set(path.relative(this.#root, file), await digestOf(file))
    this.files += 1
    this.#onProgress({ step: 'Copied', bytes: this.bytes, totalBytes: Math.max(this.#totalBytes, this.bytes) })
  }
}

function ignoreGone(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
  throw error
}
