/** Checks parts that this machine may be unable to run: arguments for another architecture, and the seed. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { programOf } from '../../../test/harness/docker-runtime.ts'
import type { Workload } from '../../contract/agent.ts'
import { chooseAccelerator } from './accelerator.ts'
import { commandLine, type MachineShape } from './command-line.ts'
import { machineFiles } from './machine-files.ts'
import { seedOf } from './seed.ts'

const shape: MachineShape = {
  id: 'one',
  files: machineFiles('/var/a,b', 'one'),
  arch: 'arm64',
  accelerator: 'tcg',
  memoryMib: 512,
  cpus: 2,
  smallImage: { kernel: '/k', initrd: '/i', version: '1' },
  ports: [22, 80, 80],
  isRestricted: false,
  isSandboxed: true,
  user: null,
  passthrough: ['-device', 'vfio-pci,host=0000:01:00.0'],
  simulatedGpus: '',
}

function valueOf(args: readonly string[], name: string): string | undefined {
  return args[args.indexOf(name) + 1]
}

describe('arguments', () => {
  test('for an emulated 64-bit ARM machine', () => {
    const args = commandLine(shape)
    expect(valueOf(args, '-machine')).toBe('virt,gic-version=2')
    expect(valueOf(args, '-append')).toContain('console=ttyAMA0')
    expect(valueOf(args, '-netdev')).toBe('user,id=net,hostfwd=tcp:127.0.0.1:0-:22,hostfwd=tcp:127.0.0.1:0-:80')
    expect(args.join(' ')).toContain('-device vfio-pci,host=0000:01:00.0')
    expect(valueOf(commandLine({ ...shape, cpus: 9 }), '-machine')).toBe('virt,gic-version=3')
  })

  test('run the machine as its own user inside the sandbox', () => {
    const args = commandLine({ ...shape, user: 2_100_000_007 })
    expect(valueOf(args, '-runas')).toBe('2100000007:2100000007')
    expect(valueOf(args, '-sandbox')).toBe('on,obsolete=deny,elevateprivileges=allow,spawn=deny,resourcecontrol=deny')
    expect(commandLine(shape)).not.toContain('-runas')
    expect(valueOf(commandLine(shape), '-sandbox')).toContain('elevateprivileges=deny')
  })

  test('escape commas in folder names', () => {
    expect(commandLine(shape).join(' ')).toContain('file=/var/a,,b/vms/one/overlay.qcow2,format=qcow2')
  })

  test('reject a name that would leave its folder', () => {
    for (const bad of ['..', '.x', 'a/b', ''])
      expect(() => machineFiles('/var', bad)).toThrow('not a valid folder name')
  })
})

describe('the accelerator', () => {
  const withKvm = (flags: string): string => {
    const root = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-kvm-'))
    fs.mkdirSync(path.join(root, 'dev'))
    fs.mkdirSync(path.join(root, 'proc'))
    fs.writeFileSync(path.join(root, 'dev/kvm'), '')
    fs.writeFileSync(path.join(root, 'proc/cpuinfo'), `processor : 0\nflags\t\t: ${flags}\n`)
    return root
  }

  test('is KVM only on processors that support it', () => {
    const able = withKvm('fpu vmx sse')
    const unable = withKvm('fpu sse hypervisor')
    expect(chooseAccelerator('auto', able)).toEqual({ name: 'kvm' })
    expect(chooseAccelerator('auto', unable).name).toBe(process.arch === 'arm64' ? 'kvm' : 'tcg')
    expect(chooseAccelerator('auto', path.join(able, 'proc'))).toMatchObject({ name: 'tcg' })
    expect(() => chooseAccelerator('kvm', path.join(able, 'proc'))).toThrow('cannot be opened (ENOENT)')
    expect(chooseAccelerator('tcg', able)).toEqual({ name: 'tcg' })
    for (const root of [able, unable]) fs.rmSync(root, { recursive: true })
  })
})

describe('the seed', () => {
  const key = `ssh-ed25519 ${Buffer.concat([Buffer.from([0, 0, 0, 11]), Buffer.from('ssh-ed25519'), Buffer.alloc(36, 7)]).toString('base64')}`
  const vmSpec: NonNullable<Workload['spec']> = {
    kind: 'virtual-machine',
    name: '  My "big"\nmachine: yes  ',
    gpuCount: 0,
    resources: { cpuModel: 'any', cpuCount: 1, ramGb: 1, storageGb: 1 },
    sshKeys: [`${key} "]\\ evil: yes`],
    ports: [],
    image: null,
  }
  const workload: Workload = {
    id: 'w-1',
    tag: 't',
    want: 'run',
    started: false,
    spec: vmSpec,
    node: { index: 0, gpuIndexes: [], peers: [] },
    disks: [],
    baseImage: null,
  }

  test('contains the user and the keys, without key comments', () => {
    const seed = seedOf(workload, 'debian', 'NVIDIA "H100"')
    expect(seed.userData).toBe(
      `#cloud-config
ssh_pwauth: false
disable_root: true
users:
  - name: debian
    lock_passwd: true
    shell: /bin/bash
    sudo: ALL=(ALL) NOPASSWD:ALL
    ssh_authorized_keys:
      - "${key}"
`,
    )
    expect(seed.metaData).toBe('instance-id: "w-1"\nlocal-hostname: "my-big-machine-yes"\nberth-gpus: "NVIDIA H100"\n')
  })

  test('adds the options of the order and the user data of the customer for cloud-init', () => {
    const program = programOf({ env: { A: 'b' }, userData: '#cloud-config\nusers: [default]\n' })
    const baseImage = { name: 'debian', source: 's', sha256: 'x', loginUser: 'debian' }
    const { userData, setup } = seedOf({ ...workload, baseImage, spec: { ...vmSpec, program } }, 'debian', '')
    expect(setup).toBe('')
    const boundary = /^Content-Type: multipart\/mixed; boundary="(\S+)"\n/.exec(userData)?.[1] ?? ''
    const parts = userData.split(`--${boundary}\n`).slice(1)
    const documents = parts.map((part) => {
      const [head = '', body = ''] = part.split('\n\n')
      return { head, text: Buffer.from(body.replace(`--${boundary}--`, ''), 'base64').toString() }
    })
    expect(documents.map(({ head }) => /^Content-Type: (\S+);/.exec(head)?.[1])).toEqual([
      'text/cloud-boothook',
      'text/plain',
      'text/cloud-config',
    ])
    expect(documents[0]?.text).toContain(`put '/etc/profile.d/berth.sh' 0644`)
    expect(documents[1]?.text).toBe(program.userData)
    // Ours adds the login user to the users of the customer.
    expect(documents[2]).toMatchObject({
      head: expect.stringContaining('Merge-Type: list(append)+dict(no_replace,recurse_list)+str()') as string,
      text: expect.stringContaining('  - name: debian\n') as string,
    })
    const mime = 'Content-Type: multipart/mixed; boundary="x"\n\n--x--\n'
    const nested = seedOf(
      { ...workload, baseImage, spec: { ...vmSpec, program: programOf({ userData: mime }) } },
      'debian',
      '',
    )
    expect(nested.userData).toContain(`\n${mime}`)
  })

  test('rejects an invalid key or user name', () => {
    const spec = { ...vmSpec, sshKeys: ['command="x" ssh-ed25519 AAAA'] }
    expect(() => seedOf({ ...workload, spec }, 'root', '')).toThrow('not an OpenSSH public key')
    expect(() => seedOf(workload, 'root\nevil', '')).toThrow('user')
  })
})
