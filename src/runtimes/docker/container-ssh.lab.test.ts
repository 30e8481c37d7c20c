/** SSH into containers with ordinary clients, and terminals. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFile, stat, writeFile } from 'node:fs/promises'
import http from 'node:http'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import ssh2, { type ClientChannel } from 'ssh2'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDockerLab, whyNoDockerLab, type DockerLab } from '../../../test/lab/docker-lab.ts'
import {
  forever,
  makeSshKey,
  programOf,
  readAll,
  relayTo,
  runtimeOn,
  workloadOf,
  type DockerRuntime,
} from '../../../test/harness/docker-runtime.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('docker')

const why = whyNoDockerLab()
const leftOut = why === undefined ? '' : ` (left out: ${why})`

describe.skipIf(why !== undefined)(`SSH${leftOut}`, () => {
  let lab: DockerLab
  let runtime: DockerRuntime
  let relay: Awaited<ReturnType<typeof relayTo>>
  let key: Awaited<ReturnType<typeof makeSshKey>>
  let rsa: Awaited<ReturnType<typeof makeSshKey>>
  let stranger: Awaited<ReturnType<typeof makeSshKey>>
  const ordered = { MODEL: 'it\'s a "tiny" $HOME', TWO_LINES: 'one\ntwo', PATH: '/opt/app:/bin:/sbin', BERTH_GPUS: '7' }

  beforeAll(async () => {
    lab = await startDockerLab({ name: 'ssh' })
    runtime = runtimeOn(lab)
    key = await makeSshKey(lab.folder)
    rsa = await makeSshKey(lab.folder, 'rsa')
    stranger = await makeSshKey(lab.folder)
    const image = lab.images.sftp
    const program = programOf({ env: ordered })
    await runtime.start(workloadOf('box', { image, sshKeys: [key.text, rsa.text], program }), () => {}, forever)
    relay = await relayTo(runtime, 'box', 0)
  })
  afterAll(async () => {
    await relay.close()
    await runtime.close()
    await lab.close()
  })

  const shell = (id: string, script: string): Promise<string> => lab.docker('exec', `berth-${id}`, 'sh', '-c', script)
  const options = (file: string): string[] => {
    const settings = [
      'IdentitiesOnly=yes',
      'BatchMode=yes',
      'ConnectTimeout=20',
      'StrictHostKeyChecking=accept-new',
      `UserKnownHostsFile=${path.join(lab.folder, 'known_hosts')}`,
    ]
    return ['-F', '/dev/null', '-i', file, ...settings.flatMap((one) => ['-o', one])]
  }
  const start = (program: string, args: readonly string[]) => {
    const child = spawn(program, args, { stdio: 'pipe', env: { PATH: process.env['PATH'], LC_LAB: 'from here' } })
    const output = { out: '', err: '' }
    child.stdout.on('data', (chunk: Buffer) => (output.out += chunk.toString('latin1')))
    child.stderr.on('data', (chunk: Buffer) => (output.err += chunk.toString('latin1')))
    const ended = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)))
    return { child, output, ended }
  }
  const ssh = (...args: string[]) =>
    start('ssh', [...options(key.file), '-p', String(relay.port), 'root@127.0.0.1', ...args])
  const outputOf = async (running: ReturnType<typeof start>, input = '') => {
    running.child.stdin.end(input)
    const code = await running.ended
    return { code, ...running.output }
  }

  test('accepts a key of the account, and the command sees its share of the machine', async () => {
    expect(await outputOf(ssh('nproc; pwd; id -u'))).toMatchObject({ code: 0, out: '1\n/root\n0\n' })
    const byRsa = start('ssh', [...options(rsa.file), '-p', String(relay.port), 'anyone@127.0.0.1', 'echo in'])
    expect(await outputOf(byRsa)).toMatchObject({ code: 0, out: 'in\n' })
  })

  test('rejects another key, or none', async () => {
    const refused = start('ssh', [...options(stranger.file), '-p', String(relay.port), 'root@127.0.0.1', 'true'])
    expect(await outputOf(refused)).toMatchObject({
      code: 255,
      err: expect.stringContaining('Permission denied (publickey)'),
    })
  })

  test('passes output, errors, input and exit code separately', async () => {
    const running = ssh('cat; echo problem >&2; exit 42')
    expect(await outputOf(running, 'given')).toEqual({ code: 42, out: 'given', err: 'problem\n' })
  })

  test('passes large data unchanged in both directions', async () => {
    const input = Buffer.alloc(3_000_000, 'the quick brown fox ').toString()
    const { code, out } = await outputOf(ssh('cat'), input)
    expect(code).toBe(0)
    expect(out === input).toBe(true)
    // Stderr and stdout alternate, with more data than a window holds.
    const mixed = 'i=0; while [ $i -lt 60 ]; do head -c 65536 /dev/zero; head -c 65536 /dev/zero >&2; i=$((i+1)); done'
    const both = await outputOf(ssh(mixed))
    expect([both.out.length, both.err.length]).toEqual([60 * 65_536, 60 * 65_536])
  })

  test('passes environment variables', async () => {
    const args = [...options(key.file), '-o', 'SendEnv=LC_LAB', '-p', String(relay.port), 'root@127.0.0.1']
    expect(await outputOf(start('ssh', [...args, 'echo "$LC_LAB"']))).toMatchObject({ out: 'from here\n' })
  })

  test('a terminal runs a shell, follows resizes and reports the exit code', async () => {
    await runtime.start(workloadOf('term'), () => {}, forever)
    const request = { kind: 'terminal', workloadId: 'term', columns: 90, rows: 30, command: null } as const
    const terminal = await runtime.open(request, forever)
    const codes: unknown[] = []
    terminal.onSignal?.((value) => codes.push(value))
    let text = ''
    terminal.stream.on('data', (chunk: Buffer) => (text += chunk.toString()))
    terminal.stream.write('stty size\n')
    await waitFor(
      () => `the first size in ${text}`,
      () => text.includes('30 90'),
    )
    terminal.signal?.({ columns: 120, rows: 40 })
    await waitFor(
      () => `the second size in ${text}`,
      async () => {
        terminal.stream.write('stty size\n')
        return text.includes('40 120')
      },
    )
    terminal.stream.write('exit 7\n')
    await waitFor('the end of the stream', () => terminal.stream.readableEnded)
    expect(codes).toEqual([{ exitCode: 7 }])
    const command = await runtime.open({ ...request, command: ['echo', 'plain'] }, forever)
    expect(await readAll(command.stream)).toBe('plain\r\n')
  })

  test('a closed terminal ends its shell, but not its background processes', async () => {
    const request = { kind: 'terminal', workloadId: 'term', columns: 90, rows: 30, command: null } as const
    const { stream } = await runtime.open(request, forever)
    const inside = (): Promise<string> => shell('term', 'ps -o args')
    stream.write('setsid sleep 7777 & sleep 8888\n')
    await waitFor(
      'both processes',
      async () => /^sleep 7777$/m.test(await inside()) && /^sleep 8888$/m.test(await inside()),
    )
    stream.destroy()
    await waitFor('the connection to be closed', async () => !(await inside()).includes('sleep 8888'))
    expect(await inside()).toContain('sleep 7777')
    await runtime.stop('term', forever)
  })

  test('the environment of the order is the same in the first process, SSH and a terminal', async () => {
    const script =
      'for name in MODEL TWO_LINES PATH BERTH_GPUS; do eval "value=\\$$name"; printf "%s=[%s]" "$name" "$value"; done'
    const expected = `MODEL=[${ordered.MODEL}]TWO_LINES=[${ordered.TWO_LINES}]PATH=[${ordered.PATH}]BERTH_GPUS=[0]`
    const first = (await lab.docker('exec', 'berth-box', 'cat', '/proc/1/environ')).split('\0')
    for (const name of ['MODEL', 'TWO_LINES', 'PATH'] as const) expect(first).toContain(`${name}=${ordered[name]}`)
    // Ours cannot be replaced.
    expect(first).toContain('BERTH_GPUS=0')
    expect((await outputOf(ssh(script))).out).toBe(expected)
    const shell = start('ssh', [...options(key.file), '-T', '-p', String(relay.port), 'root@127.0.0.1'])
    expect((await outputOf(shell, `${script}\n`)).out).toContain(expected)
    const command = ['/bin/sh', '-c', script]
    const request = { kind: 'terminal', workloadId: 'box', columns: 500, rows: 30, command } as const
    expect(await readAll((await runtime.open(request, forever)).stream)).toBe(expected.replace('\n', '\r\n'))
  })

  test('a shell has a terminal', async () => {
    const args = [...options(key.file), '-tt', '-p', String(relay.port), 'root@127.0.0.1']
    const running = start('ssh', args)
    running.child.stdin.write('tty && echo term=$TERM\n')
    await waitFor(
      () => JSON.stringify(running.output),
      () => /\/dev\/pts\/[0-9]+\r\nterm=/.test(running.output.out),
    )
    running.child.stdin.write('exit 5\n')
    expect(await running.ended).toBe(5)
  })

  /** Requests that ordinary SSH clients never send, but custom ones can. */
  interface RawProtocol {
    exec(channel: number, command: string, wantReply: boolean): void
    shell(channel: number, wantReply: boolean): void
    subsystem(channel: number, name: string, wantReply: boolean): void
    windowChange(channel: number, rows: number, columns: number, height: number, width: number): void
    signal(channel: number, name: string): void
  }
  const enterRaw = async (pty: boolean, command: string) => {
    const client = new ssh2.Client()
    const ready = new Promise<void>((resolve, reject) => client.once('ready', () => resolve()).once('error', reject))
    client.connect({
      host: '127.0.0.1',
      port: relay.port,
      username: 'root',
      privateKey: await readFile(key.file),
    })
    await ready
    const channel = await new Promise<ClientChannel>((resolve, reject) =>
      client.exec(command, { pty }, (error, opened) => (error === undefined ? resolve(opened) : reject(error))),
    )
    let out = ''
    channel.on('data', (chunk: Buffer) => (out += chunk.toString()))
    const { _protocol: raw } = client as unknown as { _protocol: RawProtocol }
    const { outgoing } = channel as unknown as { outgoing: { id: number } }
    return { client, raw, id: outgoing.id, out: () => out }
  }

  test('does not run a second program on one channel', async () => {
    const command = 'echo first; until [ -e /tmp/go ]; do sleep 0.1; done; echo still here'
    const { client, raw, id, out } = await enterRaw(false, command)
    await waitFor('the first program', () => out() === 'first\n')
    raw.exec(id, 'touch /root/second', false)
    raw.shell(id, false)
    raw.subsystem(id, 'sftp', false)
    raw.subsystem(id, 'nothing', false)
    await lab.docker('exec', 'berth-box', 'touch', '/tmp/go')
    await waitFor('the first program to continue', () => out() === 'first\nstill here\n')
    client.end()
    expect(await outputOf(ssh('ls /root/second'))).toMatchObject({ code: 1 })
  })

  test('applies the last of a flood of resizes and signals, while others can connect', async () => {
    const { client, raw, id, out } = await enterRaw(
      true,
      "trap 'echo got; stty size' WINCH; trap 'echo hit' USR1; echo up; while :; do sleep 0.1; done",
    )
    await waitFor('the command', () => out().includes('up'))
    for (let n = 0; n < 5_000; n += 1) raw.windowChange(id, 20 + (n % 50), 100, 0, 0)
    for (let n = 0; n < 2_000; n += 1) raw.signal(id, 'USR1')
    raw.windowChange(id, 77, 111, 0, 0)
    await waitFor(
      () => `the last size in ${out().slice(-200)}`,
      () => out().includes('77 111'),
    )
    // Each resize or signal was a call to the daemon.
    expect(out().match(/got|hit/g)?.length ?? 0).toBeLessThan(500)
    expect(await outputOf(ssh('echo in'))).toMatchObject({ out: 'in\n' })
    client.end()
  })

  test('ends the program of a client that disconnects', async () => {
    const running = ssh('echo up; exec sleep 9999')
    await waitFor('the command', () => running.output.out === 'up\n')
    const count = async (): Promise<string> =>
      lab.docker('exec', 'berth-box', 'sh', '-c', 'ps -o args | grep -c "^sleep 9999" || true')
    await waitFor('the background program', async () => (await count()).trim() === '1')
    running.child.kill('SIGKILL')
    expect(await running.ended).toBeNull()
    await waitFor('the program to end', async () => (await count()).trim() === '0')
  })

  test('copies files in and out with scp', async () => {
    const source = path.join(lab.folder, 'source')
    const back = path.join(lab.folder, 'back')
    await writeFile(source, Buffer.alloc(500_000, 'file '))
    const at = ['-P', String(relay.port)]
    expect(await outputOf(start('scp', [...options(key.file), ...at, source, 'root@127.0.0.1:copied']))).toMatchObject({
      code: 0,
    })
    expect(
      await outputOf(start('scp', [...options(key.file), ...at, 'root@127.0.0.1:/root/copied', back])),
    ).toMatchObject({
      code: 0,
    })
    expect((await readFile(back)).equals(await readFile(source))).toBe(true)
  })

  test.each([
    ['all addresses', '0.0.0.0:8080'],
    ['its loopback address', '127.0.0.1:8081'],
  ])('forwards a port that listens on %s, and nothing outside the container', async (_, listens) => {
    const [, port = ''] = listens.split(':')
    await lab.docker(
      'exec',
      'berth-box',
      'sh',
      '-c',
      `mkdir -p /www; echo port ${port} >/www/index.html; httpd -h /www -p ${listens}`,
    )
    // A unix socket, because another process could take a free port first.
    const socketPath = path.join(lab.folder, `to-${port}.sock`)
    const running = ssh('-N', '-L', `${socketPath}:localhost:${port}`)
    const answer = await waitFor('the forwarded port', () => askAt(socketPath))
    expect(answer).toBe(`port ${port}\n`)
    running.child.kill()
    await running.ended
    const outside = lab.registry.address
    const refused = await outputOf(ssh('-W', outside), 'GET /v2/ HTTP/1.0\r\n\r\n')
    expect(refused).toMatchObject({ code: 255, out: '' })
    expect(refused.err).toContain('open failed')
  })

  test('keeps a private host key and the authorized keys across agents', async () => {
    const next = runtimeOn(lab)
    const other = await relayTo(next, 'box', 0)
    const scan = async (port: number): Promise<string> =>
      (await outputOf(start('ssh-keyscan', ['-t', 'ed25519', '-p', String(port), '127.0.0.1']))).out
    const [before, after] = [await scan(relay.port), await scan(other.port)]
    expect(after.split(' ').slice(1)).toEqual(before.split(' ').slice(1))
    expect(after).toContain('ssh-ed25519')
    expect(
      await outputOf(start('ssh', [...options(key.file), '-p', String(other.port), 'root@127.0.0.1', 'echo again'])),
    ).toMatchObject({ out: 'again\n' })
    expect((await stat(path.join(lab.folder, 'kept', 'box.json'))).mode & 0o777).toBe(0o600)
    await other.close()
    await next.close()
  })

  test('P60: copies 100 MB in and out of an image without an SFTP server, and keeps working', async () => {
    await runtime.start(workloadOf('plain', { sshKeys: [key.text] }), () => {}, forever)
    const other = await relayTo(runtime, 'plain', 0)
    const [source, back] = [path.join(lab.folder, 'large'), path.join(lab.folder, 'large back')]
    await writeFile(source, randomBytes(100_000_000))
    const batch = [
      `put ${source} "/root/large file"`,
      `get "/root/large file" "${back}"`,
      'ls -l /root',
      'rm "/root/large file"',
    ]
    const copy = start('sftp', ['-b', '-', ...options(key.file), '-P', String(other.port), 'root@127.0.0.1'])
    expect(await outputOf(copy, `${batch.join('\n')}\n`)).toMatchObject({
      code: 0,
      out: expect.stringContaining('100000000'),
    })
    expect((await readFile(back)).equals(await readFile(source))).toBe(true)
    expect(await shell('plain', 'ls /root')).not.toContain('large')
    const args = [...options(key.file), '-p', String(other.port), 'root@127.0.0.1', 'echo fine']
    expect(await outputOf(start('ssh', args))).toMatchObject({ out: 'fine\n' })
    await other.close()
    await runtime.stop('plain', forever)
    const opening = runtime.open({ kind: 'port', workloadId: 'plain', port: 0 }, forever)
    await expect(opening).rejects.toThrow('does not exist on the host')
  })
})

/** The answer of a web server at this socket. false: none yet. */
function askAt(socketPath: string): Promise<string | false> {
  return new Promise((resolve) => {
    const request = http.get({ socketPath, agent: false }, (response) => {
      text(response).then(resolve, () => resolve(false))
    })
    request.on('error', () => resolve(false))
  })
}
