/**
 * The cloud-init seed (NoCloud, a small CD labelled `cidata`) with name, login user and keys. The network is DHCP, the
 * default of images. The format is narrow on purpose: the small image parses it line by line.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Workload } from '../../contract/agent.ts'
import { parseSshPublicKey } from '../../domain/ssh-key.ts'
import { NeverStarts } from '../runtime.ts'
import { runProgram } from '../run-program.ts'

const ISO_MS = 30_000
const LOGIN_NAME = /^[a-z_][a-z0-9_-]{0,31}$/
const NAME_CHARS = 63

export interface Seed {
  readonly userData: string
  readonly metaData: string
}

export function seedOf(workload: Workload, loginUser: string, simulatedGpus: string): Seed {
  if (!LOGIN_NAME.test(loginUser)) throw new NeverStarts('bad_login_user', `${loginUser} is not a valid user name`)
  const { spec } = workload
  const keys = (spec?.sshKeys ?? []).map(plainKey)
  const lines = [
    '#cloud-config',
    'ssh_pwauth: false',
    `disable_root: ${loginUser !== 'root'}`,
    'users:',
    `  - name: ${loginUser}`,
    '    lock_passwd: true',
    ...(loginUser === 'root' ? [] : ['    shell: /bin/bash', '    sudo: ALL=(ALL) NOPASSWD:ALL']),
    `    ssh_authorized_keys:${keys.length === 0 ? ' []' : ''}`,
    ...keys.map((key) => `      - "${key}"`),
  ]
  const meta = [
    `instance-id: "${workload.id.replaceAll(/[^A-Za-z0-9._-]/g, '-')}"`,
    `local-hostname: "${hostnameOf(workload)}"`,
    ...(simulatedGpus === '' ? [] : [`berth-gpus: "${simulatedGpus.replaceAll(/["\\]/g, '')}"`]),
  ]
  return { userData: `${lines.join('\n')}\n`, metaData: `${meta.join('\n')}\n` }
}

export async function writeSeed(file: string, seed: Seed, signal: AbortSignal): Promise<void> {
  const folder = `${file}.files`
  await fs.rm(folder, { recursive: true, force: true })
  await fs.mkdir(folder)
  await fs.writeFile(path.join(folder, 'user-data'), seed.userData)
  await fs.writeFile(path.join(folder, 'meta-data'), seed.metaData)
  const args = ['-quiet', '-o', `${file}.new`, '-volid', 'cidata', '-joliet', '-rock', 'user-data', 'meta-data']
  await runProgram('genisoimage', args, { signal, timeoutMs: ISO_MS, cwd: folder })
  await fs.rename(`${file}.new`, file)
  await fs.rm(folder, { recursive: true, force: true })
}

/** Without the comment, which is arbitrary text. */
function plainKey(text: string): string {
  const key = parseSshPublicKey(text)
  if (key === undefined) throw new NeverStarts('bad_ssh_key', 'One of the SSH keys is not an OpenSSH public key.')
  return key.text.split(' ').slice(0, 2).join(' ')
}

function hostnameOf(workload: Workload): string {
  const wanted = workload.node.peers[workload.node.index]?.hostname ?? workload.spec?.name ?? ''
  const plain = wanted
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .slice(0, NAME_CHARS)
    .replaceAll(/^-+|-+$/g, '')
  return plain === '' ? 'machine' : plain
}
