/**
 * An SSH server on loopback that stands for a rented machine of a simulated cloud. `programs` is a folder for PATH whose
 * `ssh` reaches it under every address, as the route to the machine would.
 */
import { execFileSync, spawn } from 'node:child_process'
import { chmod, mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { removeFolder } from './leftover.ts'
import { waitFor } from './wait.ts'

export interface LoopbackSshd {
  readonly programs: string
  /** Lets these public keys in, and no others. */
  authorize(publicKeys: readonly string[]): Promise<void>
  close(): Promise<void>
}

/** `nvidiaSmi`: what that program prints on the machine. */
export async function startLoopbackSshd({ nvidiaSmi }: { nvidiaSmi: string }): Promise<LoopbackSshd> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-sshd-'))
  const [programs, machine] = [path.join(folder, 'programs'), path.join(folder, 'machine')]
  await mkdir(programs)
  await mkdir(machine)
  const [hostKey, authorized, config] = ['host', 'authorized', 'config'].map((name) => path.join(folder, name))
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', hostKey ?? ''])
  await writeFile(authorized ?? '', '')
  const { username, uid } = os.userInfo()
  const port = await freePort()
  await writeProgram(path.join(machine, 'nvidia-smi'), `echo '${nvidiaSmi}'`)
  const ssh = execFileSync('sh', ['-c', 'command -v ssh'], { encoding: 'utf8' }).trim()
  const route = `-o HostName=127.0.0.1 -o Port=${port} -o User=${username}`
  await writeProgram(path.join(programs, 'ssh'), `exec ${ssh} ${route} "$@"`)
  await writeFile(
    config ?? '',
    [
      `ListenAddress 127.0.0.1:${port}`,
      `HostKey ${hostKey}`,
      `AuthorizedKeysFile ${authorized}`,
      `SetEnv PATH=${machine}:/usr/bin:/bin`,
      'PidFile none',
      'StrictModes no',
      'UsePAM no',
      'PasswordAuthentication no',
      'PermitRootLogin yes',
    ].join('\n'),
  )
  // As root it wants a folder for its unprivileged half.
  if (uid === 0) await mkdir('/run/sshd', { recursive: true })
  const child = spawn('/usr/sbin/sshd', ['-D', '-e', '-f', config ?? ''], { stdio: 'ignore' })
  let isClosed = false
  child.once('close', () => (isClosed = true))
  await waitFor('the SSH server', () => canConnect(port))
  return {
    programs,
    authorize: (keys) => writeFile(authorized ?? '', `${keys.join('\n')}\n`),
    close: async () => {
      child.kill()
      await waitFor('the SSH server to end', () => isClosed)
      await removeFolder(folder)
    },
  }
}

async function writeProgram(file: string, script: string): Promise<void> {
  await writeFile(file, `#!/bin/sh\n${script}\n`)
  await chmod(file, 0o755)
}

async function freePort(): Promise<number> {
  const server = net.createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as net.AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1')
    socket.once('connect', () => resolve((socket.destroy(), true)))
    socket.once('error', () => resolve(false))
  })
}
