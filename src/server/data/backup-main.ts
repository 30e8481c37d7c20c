/** `berth backup` and `berth restore`: copy a data folder while its server runs, and create a new one from the copy. */
import path from 'node:path'
import { parseArgs } from 'node:util'
import { BackupError } from './backup-checksums.ts'
import { backUp, restore, type BackupManifest, type Progress } from './backup.ts'

const PROGRESS_EVERY_MS = 1_000

const usage = `Usage:
  berth backup [options] <folder>          back up the embedded database and the keys while the server runs
  berth restore [options] <backup> <folder>  create a new data folder from a backup

Options:
  --data-dir <folder>  data folder of the running server (BERTH_DATA_DIR, or .berth); backup only
  --json               print the result as JSON
  -h, --help           show this help
`

class UsageError extends Error {}

async function main(): Promise<void> {
  const { values, positionals } = readArguments()
  if (values.help) return void process.stdout.write(usage)
  const [command, ...folders] = positionals
  const dataDir = path.resolve(values['data-dir'] ?? process.env.BERTH_DATA_DIR ?? '.berth')
  const [first, second, ...more] = folders
  const onProgress = makeProgressWriter()
  if (command === 'backup' && first !== undefined && second === undefined) {
    const manifest = await backUp(dataDir, path.resolve(first), onProgress)
    return show(manifest, { folder: path.resolve(first) }, values.json, backupText(first, manifest))
  }
  if (command === 'restore' && first !== undefined && second !== undefined && more.length === 0) {
    const manifest = await restore(path.resolve(first), path.resolve(second), onProgress)
    return show(manifest, { folder: path.resolve(second) }, values.json, restoreText(second, manifest))
  }
  throw new UsageError(
    `berth ${command ?? ''} needs ${command === 'restore' ? 'a backup and a new folder' : 'one new folder'}`,
  )
}

function readArguments() {
  try {
    return parseArgs({
      args: process.argv.slice(2),
      allowPositionals: true,
      options: {
        'data-dir': { type: 'string' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Progress goes to standard error; standard output has only the result. */
function makeProgressWriter(): (progress: Progress) => void {
  let writtenAt = performance.now()
  return ({ step, bytes, totalBytes }) => {
    if (performance.now() - writtenAt < PROGRESS_EVERY_MS) return
    writtenAt = performance.now()
    process.stderr.write(`${step} ${megabytes(bytes)} of about ${megabytes(totalBytes)}\n`)
  }
}

function show(manifest: BackupManifest, where: { folder: string }, asJson: boolean, text: string): void {
  process.stdout.write(asJson ? `${JSON.stringify({ ...where, ...manifest })}\n` : text)
}

function backupText(folder: string, manifest: BackupManifest): string {
  const key = manifest.hasSecretKey
    ? 'It contains the secret key and the API keys of the data folder. Protect it like the originals.'
    : 'It does not contain the secret key, which the server reads from BERTH_SECRET_KEY. Back that up too.'
  return `Backed up ${manifest.files} files (${megabytes(manifest.bytes)}) to ${folder}.\n${key}\n`
}

function restoreText(folder: string, manifest: BackupManifest): string {
  const key = manifest.hasSecretKey ? '' : ' with BERTH_SECRET_KEY set as before'
  return `Restored the backup of ${manifest.finishedAt} into ${folder}.\nStart it${key}: BERTH_DATA_DIR=${folder} berth serve\nThen check it: berth ledger verify\n`
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}

main().catch((error: unknown) => {
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(`${message}\n`)
  if (error instanceof UsageError) process.stderr.write(usage)
  else if (!(error instanceof BackupError) && process.env.BERTH_LOG_LEVEL === 'debug') throw error
  process.exitCode = error instanceof UsageError ? 2 : 1
})
