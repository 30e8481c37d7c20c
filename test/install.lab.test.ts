/**
 * A machine joins with the line that the server prints: without a checkout, without Node, without a key. Then it updates
 * itself to other versions of the server, and goes back from those that do not work.
 */
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { limits } from '../src/base/limits.ts'
import { runOptions } from '../src/cli/supply/agent-run-option.ts'
import { termsOptions } from '../src/cli/supply/agent-option.ts'
import { makeAgentBundles } from '../src/server/install/agent-bundle.ts'
import { joinOptions } from '../src/server/install/install-script.ts'
import { makeCleanMachine, type CleanMachine } from './lab/clean-machine.ts'
import { testDatabase, type TestDatabase } from './harness/database.ts'
import { startDockerLab, whyNoDockerLab, type DockerLab } from './lab/docker-lab.ts'
import { removeFolder } from './harness/leftover.ts'
import { startServerProcess, type ServerProcess } from './lab/process.ts'
import { caller, type Call } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('docker', 'install', 'build')

const run = promisify(execFile)
const bundle = path.dirname(inject('serverBundle'))
const copies: string[] = []
let home: string
let database: TestDatabase
let server: ServerProcess
let operator: Call

beforeAll(async () => {
  home = await mkdtemp(path.join(os.tmpdir(), 'berth-install-'))
  database = await testDatabase()
  server = await start()
  operator = caller(server.url, readFileSync(path.join(home, 'data', 'operator.key'), 'utf8').trim())
})
afterAll(async () => {
  await server.killTree()
  await database.drop()
  for (const folder of [home, ...copies]) await removeFolder(folder)
})

const start = (program = inject('serverBundle'), port = '0'): Promise<ServerProcess> =>
  startServerProcess(
    {
      BERTH_DATA_DIR: path.join(home, 'data'),
      DATABASE_URL: database.url,
      BERTH_DRIVERS: 'host',
      BERTH_SELL_SIMULATED: 'true',
      BERTH_PORT: port,
    },
    { program },
  )

/** A server of another version, at the same address: its command begins with this code. */
async function restartWith(code: string): Promise<void> {
  const folder = `${bundle}-version-${copies.length}`
  copies.push(folder)
  await cp(bundle, folder, { recursive: true, filter: (file) => !/\.map$|\/console$/.test(file) })
  const command = path.join(folder, 'cli.mjs')
  await writeFile(command, `${code}\n${await readFile(command, 'utf8')}`)
  const { port } = new URL(server.url)
  await server.stop()
  server = await start(path.join(folder, 'server.mjs'), port)
}

async function release(): Promise<{ build: string; platforms: string[] }> {
  return (await fetch(`${server.url}/agent/latest.json`)).json() as Promise<{ build: string; platforms: string[] }>
}

async function token(): Promise<string> {
  return (await operator('POST', '/v2/supply/join-tokens', {})).body.token as string
}

const needed = 'sh cat cut curl dirname gzip ln mkdir mktemp mv readlink rm sha256sum tar uname'.split(' ')

/** An agent of root on this machine must not be found, so the script is run by an ordinary user, as it believes. */
const asUser = { id: '#!/bin/sh\necho 1000\n' }

/** The script in a shell whose PATH has only what it needs, and `programs` by name. */
async function runScript(
  args: readonly string[],
  programs: Readonly<Record<string, string>> = {},
): Promise<{ code: number; out: string; error: string; prefix: string }> {
  const folder = await mkdtemp(path.join(home, 'machine-'))
  const [bin, prefix] = [path.join(folder, 'bin'), path.join(folder, 'berth')]
  await mkdir(bin)
  for (const name of needed.filter((one) => !(one in programs)))
    await symlink((await run('sh', ['-c', `command -v ${name}`])).stdout.trim(), path.join(bin, name))
  for (const [name, text] of Object.entries({ ...asUser, ...programs })) {
    if (text === '') continue
    await writeFile(path.join(bin, name), text)
    await chmod(path.join(bin, name), 0o755)
  }
  const line = `curl -fsSL ${server.url}/install.sh | sh -s -- "$@"`
  const words = ['-c', 'curl' in programs ? `cat "$SCRIPT" | sh -s -- "$@"` : line, 'sh', '--prefix', prefix, ...args]
  const script = path.join(folder, 'install.sh')
  await writeFile(script, await (await fetch(`${server.url}/install.sh`)).text())
  return new Promise((resolve) => {
    const env = { PATH: bin, HOME: folder, SCRIPT: script }
    const child = execFile('/bin/sh', words, { env }, (_, out, error) =>
      resolve({ code: child.exitCode ?? -1, out, error, prefix }),
    )
  })
}

/** A machine with a recent Node: the archive for it has none, and is unpacked in no time. */
const withNode = { node: `#!/bin/sh\nexec ${process.execPath} "$@"\n` }

describe('the script', () => {
  test('installs the command for customers and it works', async () => {
    const { code, out, error, prefix } = await runScript(['--cli-only'])
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(out).toContain(`berth login --server ${server.url}`)
    const berth = path.join(prefix, 'bin', 'berth')
    const { stdout } = await run(berth, ['status', '--json', '--url', server.url], { env: { PATH: '/usr/bin:/bin' } })
    expect(JSON.parse(stdout)).toMatchObject({ server: { url: server.url, ready: true } })
    expect(readdirSync(path.join(prefix, 'versions'))).toEqual([(await release()).build])
    expect(existsSync(path.join(prefix, 'current', 'node', 'LICENSE'))).toBe(true)
    expect(readFileSync(path.join(prefix, 'current', 'dist', 'cli-licences.txt'), 'utf8')).toMatch(/^zod \d/m)
  })

  test('uses the Node of the machine if it is recent, also as a service with another PATH', async () => {
    const { code, prefix } = await runScript(['--cli-only'], withNode)
    expect(code).toBe(0)
    expect(existsSync(path.join(prefix, 'current', 'node', 'LICENSE'))).toBe(false)
    const berth = path.join(prefix, 'current', 'bin', 'berth')
    const { stdout } = await run('env', ['-i', 'PATH=/bin', '/bin/sh', berth, '--version'])
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  })

  test('brings its own Node where that of the machine is too old', async () => {
    const { out } = await runScript(['--cli-only', '--dry-run'], { node: '#!/bin/sh\nexit 1\n' })
    expect(out).toContain('with its own Node')
  })

  test('works with wget', async () => {
    const { code } = await runScript(['--cli-only'], {
      ...withNode,
      curl: '',
      wget: `#!/bin/sh\nexec ${await pathOf('wget')} "$@"\n`,
    })
    expect(code).toBe(0)
  })

  test.each([
    [[], 'needs a join token'],
    [['--token'], '--token needs a value'],
    [['--token', 'bj_x'], '--price 1.20'],
    [['--token', 'bj_x', '--cli-only'], 'exclude each other'],
    [['--cli-only', '--price', '1'], 'takes no options'],
    [['--token=bj_x', '--colour', 'red'], 'Unknown option --colour'],
    [['--cli-only', '--url', 'ftp://x'], 'must be an http or https address'],
    [['--cli-only', '--prefix', 'here'], 'must be an absolute path'],
    [['--cli-only', '--url', 'http://127.0.0.1:9'], 'Could not download'],
  ])('rejects %j with the reason and installs nothing', async (args, text) => {
    const { code, error, prefix } = await runScript(args)
    expect(code).toBe(1)
    expect(error).toContain(text)
    expect(existsSync(path.join(prefix, 'current'))).toBe(false)
  })

  test.each([
    [{ uname: '#!/bin/sh\n[ "$1" = -s ] && echo Linux || echo riscv64\n' }, 'riscv64'],
    [{ uname: '#!/bin/sh\n[ "$1" = -s ] && echo SunOS || echo x86_64\n' }, 'SunOS'],
    [{ uname: `#!/bin/sh\n[ "$1" = -s ] && echo Linux || echo ${otherArch()}\n` }, 'Node 20.19 or newer'],
    [{ tar: '' }, 'needs tar'],
    [{ curl: '' }, 'curl or wget'],
    [{ sha256sum: '' }, 'sha256sum'],
  ])('on a machine with %j, says what is missing', async (programs, text) => {
    const { code, error } = await runScript(['--cli-only'], programs)
    expect(code).toBe(1)
    expect(error).toContain(text)
  })

  test('rejects a download with a wrong checksum', async () => {
    const { build, platforms } = await release()
    const file = path.join(home, 'data', 'agent-archives', build, `${platforms.at(-1)}.tar.gz`)
    const right = await readFile(file)
    const wrong = Buffer.from(right)
    wrong[right.length >> 1] = (wrong[right.length >> 1] ?? 0) ^ 1
    await writeFile(file, wrong)
    const { code, error, prefix } = await runScript(['--cli-only'])
    await writeFile(file, right)
    expect(code).toBe(1)
    expect(error).toContain('checksum')
    expect(readdirSync(path.join(prefix, 'versions'))).toEqual([])
  })

  test('prints what it would do and changes nothing', async () => {
    const { code, out, prefix } = await runScript(['--token', 'bj_x', '--price', '1', '--name', 'a', '--dry-run'])
    expect(code).toBe(0)
    expect(out).toContain('berth agent join --price 1 --name a')
    expect(existsSync(prefix)).toBe(false)
    expect((await runScript(['--help'])).out).toContain('--cli-only')
  })

  test('passes on every option of berth agent join', () => {
    const flags = Object.keys({ ...termsOptions, ...runOptions })
    const isOwn = (flag: string): boolean => flag === '--server <url>' || flag.startsWith('--no-')
    const names = flags.filter((flag) => !isOwn(flag)).map((flag) => flag.slice(2))
    expect(names.filter((name) => name.includes('<')).map((name) => name.split(' ')[0])).toEqual(
      expect.arrayContaining([...joinOptions.withValue]),
    )
    expect(names).toHaveLength(joinOptions.withValue.length + joinOptions.plain.length)
    expect(names).toEqual(expect.arrayContaining([...joinOptions.plain]))
  })
})

describe('the archives', () => {
  test('are the same on every server, within the limit, and made once', async () => {
    const license = path.join(home, 'LICENSE')
    await writeFile(license, 'of Node\n')
    const make = async (name: string) => {
      const bundles = makeAgentBundles({
        dataDir: path.join(home, name),
        programDir: bundle,
        // Compressing the real one takes five seconds of CPU time; the server of this suite does it once.
        node: { file: path.join(bundle, 'cli.mjs'), license, version: 'v0.0.0', platform: 'linux-x64' },
        onError: (message) => {
          throw new Error(message)
        },
      })
      const { build, platforms } = bundles.release() ?? { build: '', platforms: [] }
      const asked = platforms.map((platform) => [bundles.archive(build, platform), bundles.archive(build, platform)])
      return Promise.all(asked.flat())
    }
    const [one, other] = [await make('one'), await make('other')]
    const sums = (all: typeof one): unknown[] => all.map((archive) => archive?.sha256)
    expect(sums(one)).toEqual(sums(other))
    expect(one[0]).toBe(one[1])
    expect(one).toHaveLength(4)
    const { build, platforms } = await release()
    for (const platform of platforms) {
      // Makes it if nobody has asked for it yet.
      expect((await fetch(`${server.url}/agent/${build}/${platform}.tar.gz.sha256`)).status).toBe(200)
      const { size } = statSync(path.join(home, 'data', 'agent-archives', build, `${platform}.tar.gz`))
      expect(size).toBeLessThan(limits.agentBundleBytes)
    }
  })

  test('of other versions and platforms are not found', async () => {
    const { build } = await release()
    for (const at of [`${build}/plan9-mips.tar.gz`, '0.0.0-1/any.tar.gz', `${build}/..%2f..%2foperator.key`]) {
      const reply = await fetch(`${server.url}/agent/${at}`)
      expect([at, reply.status, ((await reply.json()) as { reason: string }).reason]).toEqual([
        at,
        404,
        'agent_version_not_found',
      ])
    }
  })

  test('are sent to a limited number of machines at once', async () => {
    const { build, platforms } = await release()
    const stop = new AbortController()
    const get = () => fetch(`${server.url}/agent/${build}/${platforms.at(-1)}.tar.gz`, { signal: stop.signal })
    // Nobody reads these.
    const open = await Promise.all(Array.from({ length: limits.agentDownloadsEach }, get))
    expect(open.map(({ status }) => status)).toEqual(open.map(() => 200))
    const refused = await get()
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '60'])
    stop.abort()
    await waitFor('a free place', async () => {
      const next = new AbortController()
      const { status } = await fetch(`${server.url}/agent/${build}/${platforms.at(-1)}.tar.gz`, { signal: next.signal })
      next.abort()
      return status === 200
    })
  })
})

describe('the service', () => {
  const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
  const skipped = hasSystemd ? '' : ' (skipped: no systemd)'

  test.skipIf(!hasSystemd)(`has a unit that systemd accepts${skipped}`, async () => {
    const { prefix } = await runScript(['--cli-only'], withNode)
    const berth = path.join(prefix, 'current', 'bin', 'berth')
    const { stdout } = await run(berth, ['agent', 'install', '--print', '--dir', path.join(home, 'agent')])
    expect(stdout).toContain(`ExecStart=${berth} agent run --dir ${path.join(home, 'agent')}\n`)
    const unit = path.join(home, 'berth-agent.service')
    await writeFile(unit, stdout)
    const { stderr } = await run('systemd-analyze', ['verify', '--man=no', '--recursive-errors=no', unit])
    expect(stderr).toBe('')
  })
})

test('a wrong token leaves the machine installed but not joined', async () => {
  const dir = path.join(home, 'agent-of-wrong-token')
  const more = ['--simulate-gpus', 'rtx4090:1', '--dir', dir, '--no-service', '--allow-unfenced']
  const { code, error } = await runScript(['--token', `${(await token()).slice(0, -1)}~`, ...more], withNode)
  expect(code).toBe(1)
  expect(error).toContain('has not joined')
  expect(existsSync(path.join(dir, 'agent.json'))).toBe(false)
})

const why = whyNoDockerLab()

describe.skipIf(why !== undefined)(`a machine without Node${why === undefined ? '' : ` (left out: ${why})`}`, () => {
  let docker: DockerLab
  let machine: CleanMachine
  let firstBuild: string

  beforeAll(async () => {
    docker = await startDockerLab({ name: 'install' })
    machine = await makeCleanMachine({ shares: [docker.folder] })
    firstBuild = (await release()).build
  })
  afterAll(async () => {
    await machine.close()
    await docker.close()
  })

  const host = async () => {
    const { body } = await operator('GET', '/v2/operator/hosts')
    const found = (body.hosts as Array<Record<string, unknown>>).find(({ id }) => id === 'bare-one')
    return { state: found?.['state'], agentVersion: found?.['agentVersion'] }
  }
  const status = async (): Promise<{ version: string; connected: boolean }> =>
    JSON.parse((await machine.sh('berth agent status --json')).out) as { version: string; connected: boolean }
  const current = (): string => path.basename(readlinkSync(path.join(machine.root, 'opt', 'berth', 'current')))

  test('joins with the line that comes with a join token', async () => {
    expect((await machine.sh('command -v node')).code).not.toBe(0)
    const { command } = (await operator('POST', '/v2/supply/join-tokens', {})).body as { command: string }
    const line = command.replace(/^curl -fsSL (\S+)/, 'wget -qO- $1')
    const more = `--simulate-gpus rtx4090:2 --name bare-one --allow-unfenced`
    const noEngine = await machine.sh(`${line} ${more} --docker-socket /nowhere/docker.sock`)
    expect(noEngine).toMatchObject({ code: 1, error: expect.stringContaining('/nowhere/docker.sock') })
    expect(await host()).toMatchObject({ state: undefined })

    const joined = await machine.sh(`${line} ${more} --docker-socket ${docker.socketPath}`)
    expect(joined).toMatchObject({ code: 0, error: '' })
    expect(joined.out).toContain(`Joined ${server.url} as bare-one.`)
    expect(joined.out).toContain('systemd is not running here')
    const again = await machine.sh(`wget -qO- ${server.url}/install.sh | sh`)
    expect(again).toMatchObject({ code: 0, out: expect.stringContaining('membership was kept') })

    const [, loop = ''] = /^ +(until .* done)$/m.exec(joined.out) ?? []
    machine.start(loop)
    await waitFor('the host', async () => (await host()).agentVersion === firstBuild && (await status()).connected)
    expect((await host()).state).toBe('ready')
  })

  test('updates itself to the version of the server', async () => {
    expect(await machine.sh('berth agent update --check')).toMatchObject({ code: 0 })
    await restartWith('// a newer version')
    const { build } = await release()
    expect(build).not.toBe(firstBuild)
    expect(await machine.sh('berth agent update --check')).toMatchObject({
      code: 1,
      out: expect.stringContaining(build),
    })
    const updated = await machine.sh('berth agent update --json')
    expect(updated).toMatchObject({ code: 0 })
    expect(JSON.parse(updated.out)).toMatchObject({ state: 'updated', running: true, installed: firstBuild })
    expect(await status()).toMatchObject({ version: build, connected: true })
    expect((await host()).agentVersion).toBe(build)
    firstBuild = build
  })

  test('goes back from a version whose agent ends, and from one that does not connect', async () => {
    const faults: ReadonlyArray<[fault: string, waitSeconds: number]> = [
      [`if (process.argv[3] === 'run') process.exit(1)`, 2],
      // It reaches Docker at its socket, but not the server.
      [
        `import net from 'node:net'
         const { connect } = net
         net.connect = (to, ...more) => (to.port === undefined ? connect(to, ...more) : new net.Socket())`,
        12,
      ],
    ]
    for (const [fault, waitSeconds] of faults) {
      await restartWith(fault)
      const { build } = await release()
      const undone = await machine.sh(`berth agent update --wait ${waitSeconds} --json`)
      expect({ fault, code: undone.code }).toEqual({ fault, code: 1 })
      expect(JSON.parse(undone.error)).toMatchObject({
        error: { state: 'rolled-back', running: true, installed: firstBuild, available: build },
      })
      expect(current()).toBe(firstBuild)
      expect(await status()).toMatchObject({ version: firstBuild, connected: true })
      expect(readdirSync(path.join(machine.root, 'opt/berth/versions'))).toEqual([firstBuild])
    }
  })

  test('does not install a version that does not start', async () => {
    await restartWith(`throw new Error('broken')`)
    const { code, error } = await machine.sh('berth agent update')
    expect(code).toBe(1)
    expect(error).toContain('nothing was changed')
    expect(current()).toBe(firstBuild)
    // It may still wait before its next attempt to reach the server that was just restarted.
    await waitFor('the agent to be connected', async () => (await status()).connected)
    expect((await status()).version).toBe(firstBuild)
  })

  test('leaves and is uninstalled', async () => {
    expect(await machine.sh('berth agent uninstall')).toMatchObject({ code: 1 })
    expect(await machine.sh('berth agent leave')).toMatchObject({ code: 0 })
    expect(await machine.sh('berth agent uninstall')).toMatchObject({
      code: 0,
      out: expect.stringContaining('/opt/berth'),
    })
  })
})

function otherArch(): string {
  return process.arch === 'arm64' ? 'x86_64' : 'aarch64'
}

async function pathOf(program: string): Promise<string> {
  return (await run('sh', ['-c', `command -v ${program}`])).stdout.trim()
}
