/** The agent's folder: its lock, its key and the desired state. */
import { spawn, spawnSync } from 'node:child_process'
import { createPublicKey, verify } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { waitFor } from '../../test/harness/wait.ts'
import { agentStatement, type Desired, type Workload } from '../contract/agent.ts'
import { lockFolder, openAgentFolder, type AgentFolder } from './folder.ts'
import { forgetMembership, openKey, readMembership, writeMembership, type Membership } from './identity.ts'
import { openDesiredState } from './desired-state.ts'

let root: string
let folders = 0

beforeAll(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-agent-'))
})
afterAll(() => fs.rmSync(root, { recursive: true, force: true }))

function newFolder() {
  folders += 1
  return openAgentFolder(path.join(root, String(folders)))
}

describe('the folder', () => {
  test('is private to its user, with its files', () => {
    const dir = path.join(root, 'open')
    fs.mkdirSync(dir, { mode: 0o755 })
    const folder = openAgentFolder(dir)
    folder.writeJson('file.json', { a: 1 })
    openKey(folder)
    expect(fs.statSync(dir).mode & 0o777).toBe(0o700)
    for (const name of fs.readdirSync(dir)) expect(fs.statSync(path.join(dir, name)).mode & 0o777).toBe(0o600)
  })

  test('must not be shared with other users', () => {
    expect(() => openAgentFolder(os.tmpdir())).toThrow('shared with other users')
    expect(fs.statSync(os.tmpdir()).mode & 0o077).not.toBe(0)
  })

  test('names the file that cannot be read', () => {
    const folder = newFolder()
    expect(folder.readJson('a.json', z.string())).toBeUndefined()
    folder.writeText('a.json', '{"torn')
    expect(() => folder.readJson('a.json', z.string())).toThrow(path.join(folder.dir, 'a.json'))
  })
})

describe('the lock', () => {
  test('is held by one agent at a time', () => {
    const folder = newFolder()
    const lock = lockFolder(folder)
    expect(() => lockFolder(folder)).toThrow(`Another agent (process ${process.pid}) is using ${folder.dir}`)
    lock.release()
    lockFolder(folder).release()
    expect(fs.readdirSync(folder.dir)).toEqual([])
  })

  test('of a killed process is taken over, even one killed during a takeover', () => {
    const folder = newFolder()
    const dead = spawnSync(process.execPath, ['-e', '']).pid
    fs.writeFileSync(path.join(folder.dir, 'agent.pid'), `${dead}\nearlier boot/1\naaaaaaaaaaaa\n`)
    fs.writeFileSync(path.join(folder.dir, 'agent.pid.aaaaaaaaaaaa'), `${dead}\nearlier boot/1\nbbbbbbbbbbbb\n`)
    lockFolder(folder).release()
    expect(fs.readdirSync(folder.dir)).toEqual([])
  })

  test('is free when another process has reused the pid', () => {
    const folder = newFolder()
    fs.writeFileSync(path.join(folder.dir, 'agent.pid'), `${process.pid}\nearlier boot/1\naaaaaaaaaaaa\n`)
    expect(() => lockFolder(folder).release()).not.toThrow()
  })

  test('of a live process is not taken', async () => {
    const folder = newFolder()
    const program = `import { lockFolder, openAgentFolder } from ${JSON.stringify(path.resolve('src/agent/folder.ts'))}
      lockFolder(openAgentFolder(${JSON.stringify(folder.dir)})); setInterval(() => {}, 1000)`
    const holder = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', program], {
      stdio: 'ignore',
    })
    try {
      await waitFor('the other to hold it', () => fs.existsSync(path.join(folder.dir, 'agent.pid')))
      expect(() => lockFolder(folder)).toThrow(`process ${holder.pid}`)
    } finally {
      holder.kill('SIGKILL')
    }
    await waitFor('the dead processes to be gone', () => {
      try {
        lockFolder(folder).release()
        return true
      } catch {
        return false
      }
    })
  })
})

describe('the key', () => {
  test('is created once and signs one challenge of one installation', () => {
    const folder = newFolder()
    const key = openKey(folder)
    expect(openKey(folder).publicKey).toBe(key.publicKey)
    expect(Buffer.from(key.publicKey, 'base64url')).toHaveLength(32)
    const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: key.publicKey }, format: 'jwk' })
    const check = (installation: string, nonce: string): boolean =>
      verify(
        null,
        Buffer.from(agentStatement(installation, nonce)),
        publicKey,
        Buffer.from(key.answer('inst', 'nonce'), 'base64url'),
      )
    expect(check('inst', 'nonce')).toBe(true)
    expect(check('inst', 'other')).toBe(false)
    expect(check('other', 'nonce')).toBe(false)
  })

  test('is deleted with the membership', () => {
    const folder = newFolder()
    const { publicKey } = openKey(folder)
    const membership: Membership = {
      server: 'http://127.0.0.1:1',
      hostId: 'host-1',
      installation: 'inst',
      storageGb: 10,
      run: { image: 'only-here:2', allowLocalImages: true },
      terms: {
        name: null,
        clusterName: 'a',
        region: 'b',
        offering: 'marketplace',
        networkType: 'ethernet',
        priceUsdPerGpuHour: '1',
        simulated: { word: 'h100', count: 8 },
      },
    }
    writeMembership(folder, membership)
    expect(readMembership(folder)).toEqual(membership)
    forgetMembership(folder)
    expect(readMembership(folder)).toBeUndefined()
    expect(openKey(folder).publicKey).not.toBe(publicKey)
  })
})

describe('the desired state', () => {
  const one = (id: string): Workload => ({
    id,
    tag: `berth-x-${id}`,
    want: 'run',
    started: false,
    spec: null,
    node: { index: 0, gpuIndexes: [0], peers: [] },
    disks: [],
    baseImage: null,
  })
  const desired = (generation: number, ...ids: string[]): Desired => ({
    type: 'desired',
    generation,
    state: 'ready',
    workloads: ids.map(one),
    volumes: [],
  })

  const unexpected = (what: string, error: unknown): never => {
    throw new Error(what, { cause: error })
  }

  test('is applied while the disk is full and stored once it is not', () => {
    const folder = newFolder()
    let isFull = true
    const reported: string[] = []
    const full: AgentFolder = {
      ...folder,
      writeJson: (name, value) => {
        if (isFull) throw new Error('ENOSPC: no space left on device')
        folder.writeJson(name, value)
      },
    }
    const desiredState = openDesiredState(full, (what, error) => reported.push(`${what}: ${String(error)}`))
    expect(desiredState.take(desired(1, 'a')).workloads).toHaveLength(1)
    expect(desiredState.current()?.generation).toBe(1)
    expect(reported).toEqual([expect.stringContaining('ENOSPC')])
    isFull = false
    desiredState.save()
    expect(openDesiredState(folder, unexpected).current()?.generation).toBe(1)
  })

  test('survives a restart, with workloads that ran marked as started', () => {
    const folder = newFolder()
    const desiredState = openDesiredState(folder, unexpected)
    expect(desiredState.current()).toBeUndefined()
    desiredState.take(desired(1, 'a', 'b'))
    expect(desiredState.seen([])).toBeUndefined()
    const more = desiredState.seen([{ id: 'a', tag: 'berth-x-a', state: 'running', disks: [] }])
    expect(more?.workloads.map(({ id, started }) => [id, started])).toEqual([
      ['a', true],
      ['b', false],
    ])
    const next = openDesiredState(folder, unexpected)
    expect(next.current()).toEqual(more)
    // The server does not know yet that it started; the stored mark stays.
    expect(next.take(desired(2, 'a')).workloads[0]?.started).toBe(true)
    expect(openDesiredState(folder, unexpected).current()).toMatchObject({
      generation: 2,
      workloads: [{ id: 'a', started: true }],
    })
  })
})
