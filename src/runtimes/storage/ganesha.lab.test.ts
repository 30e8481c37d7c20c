import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startStorageLab, whyNoStorageLab, type StorageClient, type StorageLab } from '../../../test/lab/storage-lab.ts'
import { fillFile } from '../../../test/lab/small-disk.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { StorageFull, type FileServer } from './file-server.ts'
import { openGanesha } from './ganesha.ts'
import { needs } from '../../../test/needs.ts'

needs('nfs')

const reason = whyNoStorageLab()
const { signal } = new AbortController()
const GIB = 2 ** 30
const refusal = /NFS4ERR_NOENT|NFS4ERR_ACCESS/

describe.skipIf(reason !== null)(`a file server by nfs-ganesha${reason === null ? '' : ` (${reason})`}`, () => {
  let lab: StorageLab
  let server: FileServer
  let inside: StorageClient
  let outside: StorageClient

  beforeEach(async () => {
    lab = startStorageLab()
    server = await lab.open()
    inside = lab.addClient()
    outside = lab.addClient()
  })
  afterEach(() => lab.close())

  const imageOf = (id: string): string => path.join(lab.folder, 'images', `${id}.img`)
  const mountOf = (id: string): string => path.join(lab.folder, 'mnt', id)
  const fillSlowFile = (id: string): number => {
    const bytes = 40 * 1_048_576
    fs.writeFileSync(path.join(mountOf(id), 'big'), Buffer.alloc(bytes, 'x'))
    return bytes
  }

  test('lets a client read and write, and hides the volume from other addresses', async () => {
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address], signal)
    expect(server.exportPath('vol-1')).toBe('/vol-1')
    expect(await inside.write('/vol-1/greeting', 'hello')).toMatchObject({ code: 0 })
    expect(await inside.read('/vol-1/greeting')).toMatchObject({ code: 0, stdout: 'hello' })
    expect((await inside.ls('/')).stdout).toContain('vol-1')

    expect((await outside.read('/vol-1/greeting')).stderr).toMatch(refusal)
    expect((await outside.write('/vol-1/greeting', 'mine')).stderr).toMatch(refusal)
    expect((await outside.ls('/')).stdout).not.toContain('vol-1')
    expect(await inside.read('/vol-1/greeting')).toMatchObject({ stdout: 'hello' })
    expect(await server.list(signal)).toEqual([{ id: 'vol-1', sizeGb: 1, clients: [inside.address], fault: null }])
    await server.check(signal)
  })

  test('closes open files of a removed client and keeps the others working', async () => {
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address, outside.address], signal)
    const bytes = fillSlowFile('vol-1')
    const pid = lab.daemonPid()
    const [staying, leaving] = [inside.readSlowly('/vol-1/big'), outside.readSlowly('/vol-1/big')]
    await Promise.all([staying.begun, leaving.begun])

    await server.setClients('vol-1', [inside.address], signal)
    const transfer = await leaving.finish()
    expect(transfer.bytes).toBeLessThan(bytes)
    expect(transfer.stderr).toContain('Failed to read')
    expect((await outside.ls('/vol-1')).stderr).toMatch(refusal)
    expect(await staying.finish()).toMatchObject({ bytes, code: 0, stderr: '' })
    expect(lab.daemonPid(), 'it was not started anew').toBe(pid)
  })

  test('closes a volume without clients and stops writing to its file', async () => {
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address], signal)
    expect(await inside.write('/vol-1/kept', 'kept')).toMatchObject({ code: 0 })
    const bytes = fillSlowFile('vol-1')
    const slow = inside.readSlowly('/vol-1/big')
    await slow.begun

    await server.setClients('vol-1', [], signal)
    const transfer = await slow.finish()
    expect(transfer.bytes).toBeLessThan(bytes)
    expect((await inside.ls('/vol-1')).stderr).toMatch(refusal)
    expect(fs.existsSync(mountOf('vol-1'))).toBe(false)
    // The file system is clean, so the file can be copied.
    execFileSync('/usr/sbin/e2fsck', ['-fn', imageOf('vol-1')], { stdio: 'pipe' })

    await server.setClients('vol-1', [outside.address], signal)
    expect(await outside.read('/vol-1/kept')).toMatchObject({ stdout: 'kept' })
  })

  test('limits a volume to its size and reports a full one', async () => {
    await server.create('vol-1', 1, signal)
    expect(fs.statSync(imageOf('vol-1')).size).toBe(GIB)
    expect(fs.statSync(imageOf('vol-1')).blocks * 512).toBeGreaterThanOrEqual(GIB)
    await server.setClients('vol-1', [inside.address], signal)
    const written = fillFile(path.join(mountOf('vol-1'), 'filler'))
    expect(written).toBeGreaterThan(GIB * 0.9)
    expect(written).toBeLessThan(GIB)
    expect((await inside.write('/vol-1/more', 'x'.repeat(2_000))).stderr).not.toBe('')
    fs.rmSync(path.join(mountOf('vol-1'), 'filler'))
    expect(await inside.write('/vol-1/again', 'there is room')).toMatchObject({ code: 0 })
  })

  test('separates data and clients of two volumes', async () => {
    await server.create('one', 1, signal)
    await server.create('two', 1, signal)
    await server.setClients('one', [inside.address], signal)
    await server.setClients('two', [outside.address], signal)
    expect(await inside.write('/one/name', 'first')).toMatchObject({ code: 0 })
    expect(await outside.write('/two/name', 'second')).toMatchObject({ code: 0 })
    expect(await inside.read('/one/name')).toMatchObject({ stdout: 'first' })
    expect(await outside.read('/two/name')).toMatchObject({ stdout: 'second' })
    expect((await inside.ls('/two')).stderr).toMatch(refusal)
    expect((await outside.ls('/one')).stderr).toMatch(refusal)
    expect((await inside.ls('/one/../two')).stderr).not.toBe('')
  })

  test('keeps data across restarts of daemon and server', async () => {
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address], signal)
    expect(await inside.write('/vol-1/kept', 'kept')).toMatchObject({ code: 0 })
    await server.shutDown()
    expect(lab.daemonPid()).toBeUndefined()
    expect(fs.existsSync(mountOf('vol-1'))).toBe(false)

    const next = await lab.open()
    expect(await next.list(signal)).toEqual([{ id: 'vol-1', sizeGb: 1, clients: [inside.address], fault: null }])
    expect(await inside.read('/vol-1/kept')).toMatchObject({ stdout: 'kept' })
    expect((await outside.read('/vol-1/kept')).stderr).toMatch(refusal)
  })

  test('keeps serving while the server is stopped, and the next server adopts the daemon', async () => {
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address], signal)
    const pid = lab.daemonPid()
    await server.close()
    expect(lab.daemonPid()).toBe(pid)
    expect(await inside.write('/vol-1/kept', 'kept')).toMatchObject({ code: 0 })
    expect((await outside.read('/vol-1/kept')).stderr).toMatch(refusal)
    await expect(server.list(signal)).rejects.toThrow('closed')

    const next = await lab.open()
    expect(lab.daemonPid()).toBe(pid)
    await next.setClients('vol-1', [outside.address], signal)
    expect(await outside.read('/vol-1/kept')).toMatchObject({ stdout: 'kept' })
    expect((await inside.read('/vol-1/kept')).stderr).toMatch(refusal)
    await next.shutDown()
    expect(lab.daemonPid()).toBeUndefined()
  })

  test('restarts a killed daemon with the same exports', async () => {
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address], signal)
    expect(await inside.write('/vol-1/kept', 'kept')).toMatchObject({ code: 0 })
    for (let kill = 0; kill < 2; kill += 1) {
      const pid = await waitFor('a daemon', () => lab.daemonPid())
      process.kill(pid, 'SIGKILL')
      await waitFor('another daemon', () => ![undefined, pid].includes(lab.daemonPid()))
      await waitFor('the daemon to answer', async () => (await inside.read('/vol-1/kept')).stdout === 'kept')
      expect((await outside.read('/vol-1/kept')).stderr).toMatch(refusal)
      await waitFor('a successful check', () =>
        server.check(signal).then(
          () => true,
          () => false,
        ),
      )
    }
    // A change right after a kill takes effect before the call returns.
    process.kill(await waitFor('a daemon', () => lab.daemonPid()), 'SIGKILL')
    await server.setClients('vol-1', [outside.address], signal)
    expect(await outside.read('/vol-1/kept')).toMatchObject({ stdout: 'kept' })
    expect((await inside.read('/vol-1/kept')).stderr).toMatch(refusal)
  })

  test('restarts a daemon that rejects changes, so that revoked clients lose access', async () => {
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address, outside.address], signal)
    const pid = await waitFor('a daemon', () => lab.daemonPid())
    // The daemon confirms changes in its log, which it cannot write here.
    fs.rmSync(path.join(lab.folder, 'ganesha.log'))
    fs.mkdirSync(path.join(lab.folder, 'ganesha.log'))
    const change = server.setClients('vol-1', [inside.address], signal)
    await waitFor('the daemon to exit', () => lab.daemonPid() !== pid)
    fs.rmdirSync(path.join(lab.folder, 'ganesha.log'))
    await change
    expect((await outside.ls('/vol-1')).stderr).toMatch(refusal)
    expect(await inside.ls('/vol-1')).toMatchObject({ code: 0 })
  })

  test('deletes the data of a destroyed volume once it has no clients', async () => {
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address], signal)
    await expect(server.destroy('vol-1', signal)).rejects.toThrow('has clients')
    expect(await inside.write('/vol-1/secret', 'secret')).toMatchObject({ code: 0 })
    await server.setClients('vol-1', [], signal)
    await server.destroy('vol-1', signal)
    await server.destroy('vol-1', signal)
    expect(await server.list(signal)).toEqual([])
    for (const folder of ['images', 'volumes', 'mnt']) expect(fs.readdirSync(path.join(lab.folder, folder))).toEqual([])
    await expect(server.setClients('vol-1', [inside.address], signal)).rejects.toThrow('There is no volume')

    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address], signal)
    expect((await inside.read('/vol-1/secret')).stderr).not.toBe('')
  })

  test('accepts repeated calls and rejects another size', async () => {
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address], signal)
    expect(await inside.write('/vol-1/kept', 'kept')).toMatchObject({ code: 0 })
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', [inside.address], signal)
    expect(await inside.read('/vol-1/kept')).toMatchObject({ stdout: 'kept' })
    await expect(server.create('vol-1', 2, signal)).rejects.toThrow('has 1 GB')
  })

  test('does not mistake a reused loop device for its previous volume', async () => {
    for (const id of ['stays', 'first', 'second']) await server.create(id, 1, signal)
    await server.setClients('stays', [inside.address], signal)
    await server.setClients('first', [inside.address], signal)
    expect(await inside.write('/first/name', 'first')).toMatchObject({ code: 0 })
    await server.setClients('first', [], signal)
    await server.setClients('second', [inside.address], signal)
    expect((await inside.read('/second/name')).stderr).not.toBe('')
    await server.setClients('first', [inside.address], signal)
    expect(await inside.read('/first/name')).toMatchObject({ stdout: 'first' })
    expect((await inside.read('/second/name')).stderr).not.toBe('')
    expect(lab.logged.filter((line) => line.includes('anew'))).toEqual([])
  })

  test('serves more volumes than there are loop devices at first', async () => {
    const ids = Array.from({ length: 10 }, (_, index) => `vol-${index}`)
    for (const id of ids) {
      await server.create(id, 1, signal)
      await server.setClients(id, [inside.address], signal)
    }
    for (const id of ids) expect(await inside.write(`/${id}/name`, id)).toMatchObject({ code: 0 })
    for (const id of ids) expect(await inside.read(`/${id}/name`)).toMatchObject({ stdout: id })
  })

  test('refuses a volume for which there is no space', async () => {
    const { bavail, bsize } = fs.statfsSync(lab.folder)
    const freeGb = Math.floor((bavail * bsize) / GIB)
    // Other programs write to this disk too.
    const roomGb = await server.roomGb()
    expect(Math.abs(roomGb - Math.min(freeGb, 16_000))).toBeLessThanOrEqual(2)
    await expect(server.create('vol-1', Math.min(freeGb + 10, 16_000), signal)).rejects.toThrow(StorageFull)
    expect(await server.list(signal)).toEqual([])
  })

  test('reports a volume whose file is lost and serves the others', async () => {
    for (const id of ['good', 'lost']) {
      await server.create(id, 1, signal)
      await server.setClients(id, [inside.address], signal)
    }
    await server.close()
    fs.renameSync(imageOf('lost'), path.join(lab.folder, 'moved'))
    const next = await lab.open()
    expect(await inside.write('/good/file', 'fine')).toMatchObject({ code: 0 })
    await next.check(signal)
    const faultsOf = async () => (await next.list(signal)).map(({ id, fault }) => [id, fault])
    expect(await faultsOf()).toEqual([
      ['good', null],
      ['lost', expect.stringContaining('lost.img')],
    ])
    // A lost file is never replaced by an empty one.
    await expect(next.create('lost', 1, signal)).rejects.toThrow('lost.img is missing')
    fs.renameSync(path.join(lab.folder, 'moved'), imageOf('lost'))
    expect(await faultsOf()).toEqual([
      ['good', null],
      ['lost', null],
    ])
    expect(await inside.ls('/lost')).toMatchObject({ code: 0 })
  })

  test('rejects a client address that does not name one machine, and changes nothing', async () => {
    await server.create('vol-1', 1, signal)
    for (const text of [
      '10.0.0.0/8',
      '*',
      'host.example',
      '10.1',
      '10.0.0.1; Access_Type = RW',
      '@all',
      'fe80::1%lo',
    ]) {
      const change = server.setClients('vol-1', [inside.address, text], signal)
      await expect(change).rejects.toThrow('is not an IP address')
    }
    for (const text of ['0.0.0.0', '255.255.255.255', '::', '224.0.0.1']) {
      const change = server.setClients('vol-1', [text], signal)
      await expect(change).rejects.toThrow('is not a usable address')
    }
    expect(await server.list(signal)).toEqual([{ id: 'vol-1', sizeGb: 1, clients: [], fault: null }])
  })

  test('treats different spellings of an address as one client', async () => {
    await server.create('vol-1', 1, signal)
    await server.setClients('vol-1', ['FD00:0:0:0::1', `::ffff:${inside.address}`, inside.address], signal)
    expect(await server.list(signal)).toMatchObject([{ clients: [inside.address, 'fd00::1'] }])
    expect(await inside.ls('/vol-1')).toMatchObject({ code: 0 })
  })

  test('rejects an id that is unsafe in a path or configuration', async () => {
    for (const id of ['..', 'a/b', '', '-v', 'a b', 'x"; }', 'é', 'x'.repeat(101)]) {
      await expect(server.create(id, 1, signal)).rejects.toThrow('is not a valid volume id')
      await expect(server.destroy(id, signal)).rejects.toThrow('is not a valid volume id')
      await expect(server.setClients(id, [], signal)).rejects.toThrow('is not a valid volume id')
    }
  })

  test('lets one server at a time use a folder', async () => {
    await expect(lab.open()).rejects.toThrow('in use by process')
  })

  test('fails to start on a port in use, with the reason', async () => {
    const folder = path.join(lab.folder, 'other')
    const log = { info: () => {}, warn: () => {} }
    await expect(openGanesha({ folder, vip: lab.vip, log })).rejects.toThrow(/Cannot bind.*[Aa]ddress already in use/)
    // Its folder is unlocked again.
    expect(fs.existsSync(path.join(folder, 'owner'))).toBe(false)
  })

  test('fails to start with an address that the machine does not have', async () => {
    const log = { info: () => {}, warn: () => {} }
    await expect(openGanesha({ folder: lab.folder, vip: '192.0.2.77', log })).rejects.toThrow('has no address')
  })
})

describe.skipIf(reason !== null)(`after a crash${reason === null ? '' : ` (${reason})`}`, () => {
  let lab: StorageLab
  beforeEach(() => {
    lab = startStorageLab()
  })
  afterEach(() => lab.close())

  test('serves clients after a killed server, and the next server adopts the daemon', async () => {
    const [inside, outside] = [lab.addClient(), lab.addClient()]
    const dead = await lab.openElsewhere('vol-1', inside.address)
    const pid = lab.daemonPid()
    expect(pid).toBeDefined()
    dead.kill('SIGKILL')
    await waitFor('the server to exit', () => dead.exitCode !== null || dead.signalCode !== null)
    expect(await inside.write('/vol-1/kept', 'kept')).toMatchObject({ code: 0 })

    const server = await lab.open()
    expect(lab.daemonPid()).toBe(pid)
    await server.setClients('vol-1', [outside.address], signal)
    expect(await outside.read('/vol-1/kept')).toMatchObject({ stdout: 'kept' })
    expect((await inside.read('/vol-1/kept')).stderr).toMatch(refusal)
    process.kill(pid ?? 0, 'SIGKILL')
    await waitFor('another daemon', () => ![undefined, pid].includes(lab.daemonPid()))
    await waitFor('the daemon to answer', async () => (await outside.read('/vol-1/kept')).stdout === 'kept')
  })

  test('adopts mounts without a daemon and finishes interrupted work', async () => {
    const inside = lab.addClient()
    const dead = await lab.openElsewhere('vol-1', inside.address)
    dead.kill('SIGKILL')
    await waitFor('the server to exit', () => dead.signalCode !== null)
    process.kill(lab.daemonPid() ?? 0, 'SIGKILL')
    await waitFor('the daemon to exit', () => lab.daemonPid() === undefined)
    const inFolder = (...parts: string[]): string => path.join(lab.folder, ...parts)
    const record = { exportId: 7, sizeGb: 1, clients: [], state: 'going' }
    fs.writeFileSync(inFolder('volumes', 'going.json'), JSON.stringify(record))
    fs.writeFileSync(inFolder('images', 'going.img'), 'rest')
    fs.writeFileSync(inFolder('volumes', 'half.json'), JSON.stringify({ ...record, exportId: 8, state: 'making' }))
    fs.writeFileSync(inFolder('images', 'half.img.new'), 'rest')

    const server = await lab.open()
    expect(await inside.write('/vol-1/file', 'text')).toMatchObject({ code: 0 })
    expect((await server.list(signal)).map(({ id }) => id)).toEqual(['vol-1'])
    expect(fs.existsSync(inFolder('images', 'going.img'))).toBe(false)
    await server.create('half', 1, signal)
    await server.setClients('half', [inside.address], signal)
    expect(await inside.write('/half/file', 'text')).toMatchObject({ code: 0 })
  })

  test('fails to start on an unreadable record instead of treating the volume as deleted', async () => {
    fs.mkdirSync(path.join(lab.folder, 'volumes'))
    fs.writeFileSync(path.join(lab.folder, 'volumes', 'vol-1.json'), '{"sizeGb":1')
    await expect(lab.open()).rejects.toThrow('vol-1.json cannot be read')
  })
})
