/**
 * The files of a container, by small programs of its own image: a shell, `stat`, `cat`, `tail`, `dd` and the like, of GNU or
 * BusyBox. So a path means what it means in there; from outside, a link could lead to the host.
 */
import type { Attrs, NamedFile, Status } from './sftp-packet.ts'

/** Runs `/bin/sh -c script sh args…` in the container. */
export interface ShellPort {
  /** To its end. The output is bounded by what the scripts print. */
  run(script: string, args: readonly string[]): Promise<ShellEnd>
  /** Stopping early ends the program. */
  read(script: string, args: readonly string[]): AsyncIterable<Buffer>
  write(script: string, args: readonly string[]): Promise<ShellInput>
}

export interface ShellEnd {
  readonly code: number
  readonly out: Buffer
}

export interface ShellInput {
  write(data: Buffer): Promise<void>
  /** Ends the input and resolves with the exit code. */
  end(): Promise<number>
}

export class FileError extends Error {
  readonly status: Status

  constructor(status: Status, message: string = status) {
    super(message)
    this.status = status
  }
}

/** Exit codes of the scripts. Any other is a failure of one of their programs. */
const codes: Readonly<Record<number, Status>> = { 82: 'noSuchFile', 83: 'denied', 84: 'failure' }

/** $1 is the path. Tells why something failed: a program's own code does not. */
const WHY = '[ -e "$1" ] || [ -L "$1" ] || exit 82; [ -w "$1" ] && [ -r "$1" ] || exit 83; exit 84'
const STAT_FORM = '%f %u %g %s %X %Y'
const MAX_BLOCK_BYTES = 65_536
/** Type bits of a mode. */
const TYPE_BITS = 0o170000
const types: Readonly<Record<number, string>> = {
  0o040000: 'd',
  0o120000: 'l',
  0o060000: 'b',
  0o020000: 'c',
  0o010000: 'p',
  0o140000: 's',
}

const scripts = {
  home: 'cd "${HOME:-/}" 2>/dev/null || cd /; pwd',
  stat: `stat -L -c '${STAT_FORM}' -- "$1" 2>/dev/null || { [ -e "$1" ] || exit 82; exit 83; }`,
  lstat: `stat -c '${STAT_FORM}' -- "$1" 2>/dev/null || { [ -e "$1" ] || [ -L "$1" ] || exit 82; exit 83; }`,
  // Names end with a zero byte, an empty one ends the list; then one line for each.
  list: `
[ -d "$1" ] || { [ -e "$1" ] || exit 82; exit 84; }
cd -- "$1" 2>/dev/null || exit 83
first=1
for file in * .[!.]* ..?*; do
  [ -e "$file" ] || [ -L "$file" ] || continue
  if [ "$first" = 1 ]; then set -- "./$file"; first=0; else set -- "$@" "./$file"; fi
done
[ "$first" = 0 ] || exit 0
printf '%s\\000' "$@"
printf '\\000'
stat -c '${STAT_FORM}' -- "$@" 2>/dev/null || exit 84`,
  mkdir: 'mkdir -m "$2" -- "$1" 2>/dev/null || { [ -e "$1" ] && exit 84; [ -d "${1%/*}/" ] || exit 82; exit 83; }',
  rmdir: `[ ! -L "$1" ] || exit 84; rmdir -- "$1" 2>/dev/null || { ${WHY}; }`,
  remove: `[ ! -d "$1" ] || [ -L "$1" ] || exit 84; rm -f -- "$1" 2>/dev/null && [ ! -e "$1" ] && exit 0; ${WHY}`,
  removeOne: `[ -e "$1" ] || [ -L "$1" ] || exit 82`,
  rename: `
[ -e "$1" ] || [ -L "$1" ] || exit 82
if [ -e "$2" ] || [ -L "$2" ]; then [ "$3" = replace ] && [ ! -d "$2" ] || exit 84; fi
mv -f -- "$1" "$2" 2>/dev/null || exit 83`,
  readlink: '[ -L "$1" ] || { [ -e "$1" ] || exit 82; exit 84; }; readlink -- "$1"',
  symlink: 'ln -s -- "$2" "$1" 2>/dev/null || { [ -e "$1" ] && exit 84; exit 83; }',
  chmod: `chmod "$2" -- "$1" 2>/dev/null || { ${WHY}; }`,
  chown: `chown "$2" -- "$1" 2>/dev/null || { ${WHY}; }`,
  touch: `touch -c -d "@$2" -- "$1" 2>/dev/null || { ${WHY}; }`,
  truncate: `truncate -s "$2" -- "$1" 2>/dev/null || { ${WHY}; }`,
  // $2: new (it must not exist), empty, keep (created if missing), old (it must exist). $3: the mode of a new file.
  openWrite: `
[ ! -d "$1" ] || exit 84
[ "$2" != new ] || { [ ! -e "$1" ] && [ ! -L "$1" ] || exit 84; }
[ "$2" != old ] || [ -e "$1" ] || exit 82
isNew=0; [ -e "$1" ] || isNew=1
if [ "$2" = empty ]; then : >"$1"; else : >>"$1"; fi 2>/dev/null || { [ -d "\${1%/*}/" ] || exit 82; exit 83; }
[ "$isNew" = 0 ] || [ -z "$3" ] || chmod "$3" -- "$1"`,
  openRead: '[ -e "$1" ] || exit 82; [ ! -d "$1" ] || exit 84; [ -r "$1" ] || exit 83',
  readFrom: 'exec tail -c "+$2" -- "$1"',
  readAll: 'exec cat -- "$1"',
  writeAt: 'exec dd of="$1" bs="$2" seek="$3" conv=notrunc 2>/dev/null',
} as const

export type OpenMode = 'new' | 'empty' | 'keep' | 'old'

export class ShellFiles {
  readonly #port: ShellPort
  #home: string | undefined

  constructor(port: ShellPort) {
    this.#port = port
  }

  /** Absolute, without `.` and `..`. Relative paths begin at the home folder. */
  async resolve(path: string): Promise<string> {
    const steps = path.startsWith('/') ? [] : (await this.#homeFolder()).split('/')
    for (const step of path.split('/')) {
      if (step === '..') steps.pop()
      else if (step !== '.' && step !== '') steps.push(step)
    }
    return `/${steps.filter((step) => step !== '').join('/')}`
  }

  async stat(path: string, follow: boolean): Promise<Attrs> {
    return parseAttrs((await this.#run(follow ? 'stat' : 'lstat', path)).toString().trim())
  }

  async list(path: string): Promise<NamedFile[]> {
    const out = await this.#run('list', path)
    const end = out.indexOf('\0\0')
    if (end < 0) return []
    const names = out.subarray(0, end).toString().split('\0')
    const lines = out
      .subarray(end + 2)
      .toString()
      .trim()
      .split('\n')
    if (lines.length !== names.length) throw new FileError('failure', 'the folder changed while it was read')
    return names.map((one, n) => {
      const [name, attrs] = [one.slice(2), parseAttrs(lines[n] ?? '')]
      return { name, attrs, line: lineOf(name, attrs) }
    })
  }

  async readlink(path: string): Promise<string> {
    return (await this.#run('readlink', path)).toString().replace(/\n$/, '')
  }

  async mkdir(path: string, mode = 0o777): Promise<void> {
    await this.#run('mkdir', path, octal(mode))
  }

  async rmdir(path: string): Promise<void> {
    await this.#run('rmdir', path)
  }

  async remove(path: string): Promise<void> {
    await this.#run('removeOne', path)
    await this.#run('remove', path)
  }

  async rename(from: string, to: string, mayReplace: boolean): Promise<void> {
    await this.#run('rename', from, to, mayReplace ? 'replace' : 'keep')
  }

  async symlink(path: string, target: string): Promise<void> {
    await this.#run('symlink', path, target)
  }

  async change(path: string, { size, uid, gid, mode, mtime }: Attrs): Promise<void> {
    if (size !== undefined) await this.#run('truncate', path, String(size))
    if (mode !== undefined) await this.#run('chmod', path, octal(mode))
    if (uid !== undefined && gid !== undefined) await this.#run('chown', path, `${uid}:${gid}`)
    if (mtime !== undefined) await this.#run('touch', path, String(mtime))
  }

  async openRead(path: string): Promise<void> {
    await this.#run('openRead', path)
  }

  async openWrite(path: string, how: OpenMode, mode: number | undefined): Promise<void> {
    await this.#run('openWrite', path, how, mode === undefined ? '' : octal(mode))
  }

  readFrom(path: string, offset: number): AsyncIterable<Buffer> {
    return offset === 0
      ? this.#port.read(scripts.readAll, [path])
      : this.#port.read(scripts.readFrom, [path, String(offset + 1)])
  }

  /** The block is the largest that the offset is a multiple of: clients write pieces of 32 KB. */
  writeAt(path: string, offset: number): Promise<ShellInput> {
    let block = MAX_BLOCK_BYTES
    while (offset % block !== 0) block /= 2
    return this.#port.write(scripts.writeAt, [path, String(block), String(offset / block)])
  }

  async #homeFolder(): Promise<string> {
    return (this.#home ??= (await this.#port.run(scripts.home, [])).out.toString().trim() || '/')
  }

  async #run(name: keyof typeof scripts, ...args: readonly string[]): Promise<Buffer> {
    const { code, out } = await this.#port.run(scripts[name], args)
    if (code === 0) return out
    throw new FileError(codes[code] ?? 'failure')
  }
}

function parseAttrs(line: string): Attrs {
  const [mode = '', ...numbers] = line.split(' ')
  const [uid, gid, size, atime, mtime] = numbers.map((one) => Math.trunc(Number(one)))
  if (!/^[0-9a-f]+$/.test(mode) || mtime === undefined) throw new FileError('failure', 'this image has no usable stat')
  return { mode: Number.parseInt(mode, 16), uid, gid, size, atime, mtime }
}

function octal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0')
}

/** Clients show it to people; OpenSSH's prints it for `ls -l`. */
function lineOf(name: string, { mode = 0, uid = 0, gid = 0, size = 0, mtime = 0 }: Attrs): string {
  const bits = Array.from('rwxrwxrwx', (letter, n) => (((mode >> (8 - n)) & 1) === 1 ? letter : '-')).join('')
  const day = new Date(mtime * 1_000).toISOString().slice(0, 16).replace('T', ' ')
  return `${types[mode & TYPE_BITS] ?? '-'}${bits} 1 ${uid} ${gid} ${size} ${day} ${name}`
}
