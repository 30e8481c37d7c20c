/**
 * `berth cp`: a file or a folder to or from a machine, over the input and output of a small script there. A file needs
 * only a shell and `cat`, a folder also `tar` on both sides. A file is complete under its name or not there at all.
 */
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { PassThrough, Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { megabytes } from '../../view/number.ts'
import { displayName, type OwnMachine } from '../../view/own-machine.ts'
import { makeBar, noBar, type Bar } from '../kit/bar.ts'
import { packFolder, unpackFolder } from '../kit/local-tar.ts'
import { ownMachine } from './own-machine.ts'
import { rejectSimulated, remoteOptions, runRemote, type Remote, type RemoteOptions } from './remote.ts'
import { custom } from '../kit/row.ts'
import { CliError, exitCodes } from '../kit/shell.ts'
import type { Call, Row } from '../kit/row-type.ts'

const DRAW_MS = 200
const MAX_ERROR_CHARS = 4_000
const MAX_HEAD_BYTES = 100
const PERMISSION_BITS = 0o777

export const rows: readonly Row[] = [
  custom<RemoteOptions>('cp', 'copy a file or folder to or from a machine', {
    who: 'customer',
    args: { '<source>': 'local path, or NAME:PATH on a machine', '<target>': 'the same, for the copy' },
    options: remoteOptions,
    run: runCopy,
    notes:
      'If the target is a folder, the copy goes into it under the name of the source.\n' +
      'Folders are copied whole. The machine needs /bin/sh and cat, for folders also\ntar.',
    examples: ['berth cp model.bin web:/srv/', 'berth cp web:/srv/results ./results', 'berth cp ./src web:src'],
  }),
]

async function runCopy(call: Call<RemoteOptions>): Promise<void> {
  const { session, shell, client, screen, options, args } = call
  const [source, target] = args.map((one) => parsePlace(String(one))) as [Place, Place]
  if ((source.machine === undefined) === (target.machine === undefined)) {
    throw new CliError(exitCodes.usage, 'Name one machine: NAME:PATH as the source or as the target.', [
      'Example: berth cp model.bin web:/srv/',
      'A local path with a colon begins with ./',
    ])
  }
  const machine = await ownMachine.find(client, source.machine ?? target.machine ?? '')
  await rejectSimulated(session, machine)
  const bar = shell.color.error && !session.json ? makeBar((text) => shell.writeError(text)) : noBar
  const meter = new Meter(bar)
  const remote = { session, shell, machine, options }
  try {
    if (source.machine === undefined) await upload(remote, source.path, target.path, meter)
    else await download(remote, source.path, target.path, meter)
  } finally {
    meter.end()
  }
  screen.show({ bytes: meter.bytes }, () => [`Copied ${sizeText(meter.bytes)} ${directionOf(source, machine)}.`])
}

interface Place {
  /** undefined: this machine. */
  readonly machine: string | undefined
  readonly path: string
}

/** A colon after a slash, or after the letter of a drive, belongs to a local path. */
export function parsePlace(text: string): Place {
  const [, machine, remotePath = ''] = /^([^/\\:]{2,}|\d):(.*)$/s.exec(text) ?? []
  if (machine === undefined) return { machine, path: text }
  // A path must not be read as an option.
  return { machine, path: remotePath === '' ? '.' : remotePath.startsWith('-') ? `./${remotePath}` : remotePath }
}

function directionOf(source: Place, machine: OwnMachine): string {
  return `${source.machine === undefined ? 'to' : 'from'} ${displayName(machine)}`
}

/** `950 bytes`, `12 MB` */
function sizeText(bytes: number): string {
  return bytes < 1_000_000 ? `${bytes} bytes` : megabytes(bytes)
}

/** Counts what passes, and draws it. */
class Meter {
  readonly #bar: Bar
  readonly #startedAt = performance.now()
  #drawnAt = 0
  bytes = 0
  /** undefined: not known, as for a folder. */
  totalBytes: number | undefined

  constructor(bar: Bar) {
    this.#bar = bar
  }

  async *count(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      this.bytes += chunk.length
      this.#draw()
      yield chunk
    }
  }

  #draw(): void {
    const now = performance.now()
    if (now - this.#drawnAt < DRAW_MS) return
    this.#drawnAt = now
    const perSecond = (this.bytes * 1_000) / Math.max(1, now - this.#startedAt)
    const text = `${megabytes(this.bytes)}, ${megabytes(perSecond)}/s`
    if (this.totalBytes === undefined) this.#bar.write(text)
    else this.#bar.draw(this.bytes / this.totalBytes, `${text} of ${megabytes(this.totalBytes)}`)
  }

  end(): void {
    this.#bar.clear()
  }
}

/**
 * $1 is the target, $2 the name of the source, $3 the bytes of a file or nothing for a folder, $4 its mode. The end of
 * input does not tell a file that was cut off, so its length is compared. After a failure it says `stop` and reads the
 * rest, because not every engine reports the end of a program that leaves input unread.
 */
const RECEIVE_SCRIPT = `
fail() { [ -z "$1" ] || echo "$1" >&2; echo stop; cat >/dev/null; exit 1; }
target=$1
case $target in */) [ -d "$target" ] || fail "There is no folder $target." ;; esac
if [ -d "$target" ]; then target=\${target%/}/$2; fi
if [ -z "$3" ]; then
  mkdir -p "$target" && tar -xof - -C "$target" || fail
  exit 0
fi
if [ -d "$target" ]; then fail "$target is a folder."; fi
part=$target.part-$$
trap 'rm -f "$part"' EXIT
cat >"$part" || fail
if [ "$(wc -c <"$part")" -ne "$3" ]; then fail 'The copy is incomplete.'; fi
chmod "$4" "$part" && mv -f "$part" "$target" || fail`

/** $1 is the path. The first line says what follows. */
const SEND_SCRIPT = `
if [ -d "$1" ]; then echo folder; exec tar -cf - -C "$1" .; fi
if [ ! -e "$1" ]; then echo "There is no file or folder $1." >&2; exit 1; fi
if [ ! -f "$1" ]; then echo "$1 is not a file or folder." >&2; exit 1; fi
mode=644
if [ -x "$1" ]; then mode=755; fi
size=$(wc -c <"$1") || exit 1
echo file $size $mode
exec cat "$1"`

async function upload(remote: Remote, from: string, to: string, meter: Meter): Promise<void> {
  const stat = fs.statSync(from, { throwIfNoEntry: false })
  if (stat === undefined) throw new CliError(exitCodes.failed, `There is no file or folder ${from}.`)
  const isFolder = stat.isDirectory()
  if (!isFolder && !stat.isFile()) throw new CliError(exitCodes.failed, `${from} is not a file or folder.`)
  if (!isFolder) meter.totalBytes = stat.size
  const facts = isFolder ? ['', ''] : [String(stat.size), (stat.mode & PERMISSION_BITS).toString(8)]
  const bytes = isFolder ? packFolder(from) : fileBytes(from, stat.size)
  let isStopped = false
  const output = new Writable({
    write: (_chunk, _encoding, done) => {
      isStopped = true
      done()
    },
  })
  const wantedBytes = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of meter.count(bytes)) {
      if (isStopped) return
      yield chunk
    }
  }
  const input = Readable.from(wantedBytes(), { objectMode: false })
  const name = path.basename(path.resolve(from))
  await runScript(remote, RECEIVE_SCRIPT, [to, name, ...facts], { input, output })
}

/** Reads the promised number of bytes from a file that may be growing. */
function fileBytes(file: string, size: number): AsyncIterable<Buffer> {
  return size === 0 ? Readable.from([]) : fs.createReadStream(file, { end: size - 1 })
}

async function download(remote: Remote, from: string, to: string, meter: Meter): Promise<void> {
  const target = localTarget(to, from)
  const output = new PassThrough()
  // A failure here is reported by the command, which it ends, or by the line that waits for it.
  output.on('error', () => {})
  const storing = store(output, target, meter)
  storing.catch((error: unknown) => output.destroy(error instanceof Error ? error : new Error(String(error))))
  try {
    await runScript(remote, SEND_SCRIPT, [from], { input: Readable.from([]), output })
    output.end()
    await storing
  } catch (error) {
    output.destroy()
    await storing.catch(() => {})
    throw error
  }
}

function localTarget(to: string, from: string): string {
  const isFolder = fs.statSync(to, { throwIfNoEntry: false })?.isDirectory() === true
  if (!isFolder && /[/\\]$/.test(to)) throw new CliError(exitCodes.failed, `There is no folder ${to}.`)
  const name = path.posix.basename(path.posix.normalize(from))
  return isFolder && !['', '.', '..'].includes(name) ? path.join(to, name) : to
}

/** Writes what the machine sends. It is complete when `output` ends, which it does only after a success. */
async function store(output: Readable, target: string, meter: Meter): Promise<void> {
  const { head, content } = await readHead(output)
  const bytes = meter.count(content)
  if (head === 'folder') return unpackFolder(target, bytes)
  const [, size, mode] = /^file\s+(\d+) (\d{3})$/.exec(head) ?? []
  if (size === undefined || mode === undefined) throw new CliError(exitCodes.failed, 'The machine sent no file.')
  meter.totalBytes = Number(size)
  const part = `${target}.part-${randomBytes(4).toString('hex')}`
  try {
    await pipeline(bytes, fs.createWriteStream(part, { flags: 'wx', mode: Number.parseInt(mode, 8) }))
    fs.renameSync(part, target)
  } catch (error) {
    fs.rmSync(part, { force: true })
    throw error
  }
}

async function readHead(stream: Readable): Promise<{ head: string; content: AsyncIterable<Buffer> }> {
  const chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  let start: Buffer = Buffer.alloc(0)
  while (!start.includes('\n') && start.length < MAX_HEAD_BYTES) {
    const { done, value } = await chunks.next()
    if (done === true) break
    start = Buffer.concat([start, value])
  }
  const end = start.indexOf('\n')
  const content = async function* (): AsyncGenerator<Buffer> {
    if (end + 1 < start.length) yield start.subarray(end + 1)
    yield* { [Symbol.asyncIterator]: () => chunks }
  }
  return { head: start.subarray(0, Math.max(0, end)).toString(), content: content() }
}

async function runScript(
  remote: Remote,
  script: string,
  args: readonly string[],
  streams: { readonly input: Readable; readonly output: Writable },
): Promise<void> {
  let text = ''
  const errors = new Writable({
    write: (chunk: Buffer, _, done) => {
      text = (text + chunk.toString()).slice(0, MAX_ERROR_CHARS)
      done()
    },
  })
  const code = await runRemote(remote, ['/bin/sh', '-c', script, 'sh', ...args], { ...streams, errors })
  if (code === 0) return
  const cause = text.trim() === '' ? `exit code ${code}` : text.trim().replace(/\.$/, '')
  throw new CliError(exitCodes.failed, `The copy failed on ${displayName(remote.machine)}: ${cause}.`, [
    'Copying needs /bin/sh and cat on the machine, for folders also tar.',
  ])
}
