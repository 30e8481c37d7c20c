/**
 * `npm test`: the checks, then every test; `npm test -- <filter…>`: only the tests that match. Whatever happens, the
 * very last line is `N passed, N failed` with true counts, and the exit code is not zero when anything has failed.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const qemu =
  process.arch === 'arm64'
    ? { command: 'qemu-system-aarch64', package: 'qemu-system-arm' }
    : { command: 'qemu-system-x86_64', package: 'qemu-system-x86' }
const [containers, machines, metal, storage] = [
  'tests of containers',
  'tests of virtual machines',
  'tests of bare metal',
  'tests of volumes',
]

/** Programs beside Node that tests need, by Debian package. */
/** @type {ReadonlyArray<{ command: string, package: string, neededBy: string }>} */
const needs = [
  { command: 'ffprobe', package: 'ffmpeg', neededBy: 'the test of spoken answers' },
  { command: 'dockerd', package: 'docker.io', neededBy: containers },
  { command: 'docker-registry', package: 'docker-registry', neededBy: containers },
  { command: 'busybox', package: 'busybox-static', neededBy: containers },
  { command: 'ip', package: 'iproute2', neededBy: containers },
  { command: 'ssh', package: 'openssh-client', neededBy: metal },
  { command: 'sshd', package: 'openssh-server', neededBy: metal },
  { ...qemu, neededBy: machines },
  { command: 'qemu-img', package: 'qemu-utils', neededBy: machines },
  { command: 'genisoimage', package: 'genisoimage', neededBy: machines },
  { command: 'cpio', package: 'cpio', neededBy: machines },
  { command: 'modprobe', package: 'kmod', neededBy: machines },
  { command: 'dropbear', package: 'dropbear-bin', neededBy: machines },
  { command: 'nft', package: 'nftables', neededBy: machines },
  { command: 'mke2fs', package: 'e2fsprogs', neededBy: storage },
  { command: 'ganesha.nfsd', package: 'nfs-ganesha', neededBy: storage },
  { command: 'zsh', package: 'zsh', neededBy: 'the test of completions' },
  { command: 'fish', package: 'fish', neededBy: 'the test of completions' },
  { command: 'chromium-headless-shell', package: 'chromium-headless-shell', neededBy: 'the tests of the console' },
  { command: 'nfs-ls', package: 'libnfs-utils', neededBy: storage },
]
/** Parts of those that are no programs of their own. */
const beside = new Map([['nfs-ganesha', ['nfs-ganesha-vfs']]])

const root = fileURLToPath(new URL('..', import.meta.url))
const closingLine = /^(\d+) passed, (\d+) failed(.*)$/

process.exitCode = await main(process.argv.slice(2))

/** @param {string[]} filters */
async function main(filters) {
  // Ctrl-C goes to the child too, which ends by itself and is then told about.
  process.on('SIGINT', () => {})
  installNeeds()
  if (filters.length === 0) {
    const check = await run(process.env['npm_execpath'] ?? 'npm', ['run', '--silent', 'check'])
    if (!check.ok) return close(`npm run check failed (${check.how}); the tests were not run.`, 0, 1)
  }
  const tests = await run('node_modules/vitest/vitest.mjs', ['run', ...filters])
  if (tests.closing === undefined) return close(`vitest ended without a result (${tests.how}).`, 0, 1)
  const [, passed = '0', failed = '0', rest = ''] = tests.closing
  // A run can fail where no test has: nothing was found to run, or cleaning up went wrong.
  const failures = tests.ok ? Number(failed) : Math.max(1, Number(failed))
  return close('', Number(passed), failures, rest)
}

/**
 * @param {string} why
 * @param {number} passed
 * @param {number} failed
 */
function close(why, passed, failed, rest = '') {
  if (why !== '') process.stdout.write(`\n${why}\n`)
  process.stdout.write(`${passed} passed, ${failed} failed${rest}\n`)
  return failed === 0 ? 0 : 1
}

/**
 * Runs a program and shows what it prints as it comes, but for its closing line, which is kept back for the end.
 *
 * @param {string} program
 * @param {string[]} args
 * @returns {Promise<{ ok: boolean, how: string, closing: RegExpExecArray | undefined }>}
 */
function run(program, args) {
  const isScript = /\.[cm]?js$/.test(program)
  const child = spawn(isScript ? process.execPath : program, isScript ? [program, ...args] : args, {
    cwd: root,
    stdio: ['inherit', 'pipe', 'inherit'],
    // Through a pipe it cannot see that there is a terminal at the other end.
    env: process.stdout.isTTY ? { FORCE_COLOR: '1', ...process.env } : process.env,
  })
  let closing
  let unfinished = ''
  child.stdout.setEncoding('utf8').on('data', (/** @type {string} */ chunk) => {
    const lines = (unfinished + chunk).split('\n')
    unfinished = lines.pop() ?? ''
    for (const line of lines) {
      const match = closingLine.exec(line)
      if (match === null) process.stdout.write(`${line}\n`)
      else closing = match
    }
  })
  return new Promise((resolve) => {
    child.on('error', (error) => resolve({ ok: false, how: error.message, closing }))
    child.on('close', (code, signal) => {
      if (unfinished !== '') process.stdout.write(`${unfinished}\n`)
      resolve({ ok: code === 0, how: signal ?? `exit code ${code}`, closing })
    })
  })
}

/** As root on Debian what is missing is installed; elsewhere it is named, and the tests that need it say so. */
function installNeeds() {
  const missing = needs.filter(({ command }) => spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0)
  if (missing.length === 0) return
  const packages = missing.flatMap((one) => [one.package, ...(beside.get(one.package) ?? [])])
  for (const one of missing) process.stdout.write(`${one.command} is missing, which ${one.neededBy} needs.\n`)
  if (process.getuid?.() !== 0 || !existsSync('/etc/debian_version')) {
    return void process.stdout.write(`Install: ${packages.join(' ')}\n`)
  }
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  spawnSync('apt-get', ['update', '-q'], { stdio: 'inherit', env })
  spawnSync('apt-get', ['install', '-qy', '--no-install-recommends', ...packages], { stdio: 'inherit', env })
}
