/**
 * The cloud-init seed (NoCloud, a small CD labeled `cidata`) with name, login user, keys and the options of the order.
 * The network is DHCP, the default of images. The small image parses our configuration line by line, so its format is
 * deliberately simple, and the options are a separate script there.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Workload } from '../../contract/agent.ts'
import { parseSshPublicKey } from '../../domain/ssh-key.ts'
import { multipart } from '../cloud-init.ts'
import { NeverStarts } from '../runtime.ts'
import { runProgram } from '../run-program.ts'
import { MOUNT_FILE, mountScript } from './mount-script.ts'
import { SETUP_FILE, setupScript } from '../setup-script.ts'

const ISO_MS = 30_000
const LOGIN_NAME = /^[a-z_][a-z0-9_-]{0,31}$/
const NAME_CHARS = 63

export interface Seed {
  readonly userData: string
  readonly metaData: string
  /** The scripts for the small image. Empty: no options. */
  readonly setup: string
  readonly mounts: string
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
  const config = `${lines.join('\n')}\n`
  const metaData = `${meta.join('\n')}\n`
  const hasCloudInit = workload.baseImage !== null
  const setup = setupScript(workload.id, spec?.program, !hasCloudInit)
  const mounts = mountScript(workload.disks)
  if (!hasCloudInit) return { userData: config, metaData, setup, mounts }
  const userData = multipart(config, [mounts, setup], spec?.program?.userData ?? '')
  return { userData, metaData, setup: '', mounts: '' }
}

export async function writeSeed(file: string, seed: Seed, signal: AbortSignal): Promise<void> {
  const folder = `${file}.files`
  await fs.rm(folder, { recursive: true, force: true })
  await fs.mkdir(folder)
  await fs.writeFile(path.join(folder, 'user-data'), seed.userData)
  await fs.writeFile(path.join(folder, 'meta-data'), seed.metaData)
  const files = ['user-data', 'meta-data']
  if (seed.setup !== '') {
    await fs.writeFile(path.join(folder, SETUP_FILE), seed.setup)
    files.push(SETUP_FILE)
  }
  if (seed.mounts !== '') {
    await fs.writeFile(path.join(folder, MOUNT_FILE), seed.mounts)
    files.push(MOUNT_FILE)
  }
  const args = ['-quiet', '-o', `${file}.new`, '-volid', 'cidata', '-joliet', '-rock', ...files]
  await runProgram('genisoimage', args, { signal, timeoutMs: ISO_MS, cwd: folder })
  await fs.rename(`${file}.new`, file)
  await fs.rm(folder, { recursive: true, force: true })
}

/** Removes the comment, which is arbitrary text. */
function plainKey(text: string): string {
  const key = parseSshPublicKey(text)
  if (key === undefined) throw new NeverStarts('bad_ssh_key', 'One of the SSH keys is not an OpenSSH public key.')
  return key.text.split(' ').slice(0, 2).join(' ')
}

function hostnameOf(workload: Workload): string {
  const name = workload.node.peers[workload.node.index]?.hostname ?? workload.spec?.name ?? ''
  const plain = name
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]+/g, '-')
    .slice(0, NAME_CHARS)
    .replaceAll(/^-+|-+$/g, '')
  return plain === '' ? 'machine' : plain
}
