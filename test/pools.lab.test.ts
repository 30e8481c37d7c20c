/** P63: SkyPilot and dstack read the files of `berth pools`, each with its own code. */
import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { renderPool } from '../src/cli/rental/machine-pool.ts'
import { renderConfig } from '../src/cli/rental/ssh-config-file.ts'
import { removeFolder } from './harness/leftover.ts'
import { pythonPackages, whyNoPython } from './lab/python-packages.ts'
import { needs } from './needs.ts'

needs('python')

const INSTALL_MS = 900_000
const why = whyNoPython()
const machines = [
  { name: 'calm-ivory-horse', ssh: { user: 'root', host: '198.51.100.7', port: 21_001 } },
  { name: 'brave-teal-otter', ssh: { user: 'ubuntu', host: 'gpu.example.com', port: 22 } },
]

describe.skipIf(why !== undefined)(`pools${why === undefined ? '' : ` (left out: ${why})`}`, () => {
  let home: string

  beforeAll(async () => {
    home = await mkdtemp(path.join(os.tmpdir(), 'berth-pools-'))
    await writeFile(path.join(home, 'config'), renderConfig(machines, undefined))
    // ssh takes the home folder from the system, so the file is named.
    await writeFile(path.join(home, 'ssh'), `#!/bin/sh\nexec /usr/bin/ssh -F ${path.join(home, 'config')} "$@"\n`)
    await chmod(path.join(home, 'ssh'), 0o700)
  })
  afterAll(() => removeFolder(home))

  async function readBy(scheduler: 'skypilot' | 'dstack', packages: string, text: string): Promise<unknown> {
    const [file, result] = [path.join(home, `${scheduler}.yml`), path.join(home, `${scheduler}.json`)]
    await writeFile(file, text)
    const env = { PATH: `${home}:${process.env['PATH']}`, HOME: home, PYTHONPATH: packages }
    const args = [path.resolve('test/clients/pools.py'), result, scheduler, file]
    await promisify(execFile)('python3', args, { env, cwd: home })
    return JSON.parse(await readFile(result, 'utf8'))
  }

  test('P63: SkyPilot finds the machines in the SSH configuration', { timeout: INSTALL_MS }, async () => {
    const packages = await pythonPackages('skypilot-0.14.1', ['skypilot==0.14.1'])
    const hosts = machines.map(({ name }) => ({
      ip: `berth-${name}`,
      user: '',
      identity_file: '',
      password: '',
      use_ssh_config: true,
    }))
    expect(await readBy('skypilot', packages, renderPool('skypilot', 'gpus', machines, undefined))).toEqual({
      gpus: hosts,
    })
  })

  test('P63: dstack reads a fleet', { timeout: INSTALL_MS }, async () => {
    // One of its packages has no wheel.
    const packages = await pythonPackages('dstack-0.22.0', ['--no-binary=cursor', 'dstack==0.22.0'])
    const read = await readBy('dstack', packages, renderPool('dstack', 'gpus', machines, '~/.ssh/work'))
    expect(read).toMatchObject({
      type: 'fleet',
      name: 'gpus',
      ssh_config: {
        identity_file: '~/.ssh/work',
        hosts: machines.map(({ ssh }) => ({ hostname: ssh.host, port: ssh.port, user: ssh.user })),
      },
    })
  })
})
