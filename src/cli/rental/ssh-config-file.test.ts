/** P61: the files of `berth ssh-config`. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { parse } from 'yaml'
import { renderPool } from './machine-pool.ts'
import { removeSshFiles, writeSshFiles } from './ssh-config-file.ts'

const one = { name: 'calm-ivory-horse', ssh: { user: 'root', host: '198.51.100.7', port: 21_001 } }
const other = { name: 'brave-teal-otter', ssh: { user: 'ubuntu', host: 'gpu.example.com', port: 22 } }
const OWN = '# mine\nHost work\n  User me\n\nMatch all\n  ForwardAgent no'

let folder: string
beforeEach(() => {
  folder = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'berth-ssh-')), '.ssh')
})
afterEach(() => fs.rmSync(path.dirname(folder), { recursive: true }))

const read = (name: string): string => fs.readFileSync(path.join(folder, name), 'utf8')
const list = (): string[] => fs.readdirSync(folder).toSorted()

test('P61: adds one line at the top of the configuration, once, and changes no other', () => {
  fs.mkdirSync(folder)
  fs.writeFileSync(path.join(folder, 'config'), OWN, { mode: 0o640 })
  expect(writeSshFiles(folder, [one], undefined).isIncluded).toBe(true)
  expect(writeSshFiles(folder, [one, other], undefined).isIncluded).toBe(false)
  expect(read('config')).toBe(`Include berth_config\n${OWN}`)
  expect(fs.statSync(path.join(folder, 'config')).mode & 0o777).toBe(0o640)
  expect(list()).toEqual(['berth_config', 'config'])
  removeSshFiles(folder)
  expect(read('config')).toBe(OWN)
  expect(list()).toEqual(['config'])
})

test('P61: moves the line to the top where it was put below a Host', () => {
  fs.mkdirSync(folder)
  fs.writeFileSync(path.join(folder, 'config'), 'Host work\n  User me\nInclude berth_config\n')
  writeSshFiles(folder, [one], undefined)
  expect(read('config')).toBe('Include berth_config\nHost work\n  User me\n')
})

test('P61: creates the folder for nobody else, and removes ended machines with their host keys', () => {
  writeSshFiles(folder, [one, other], '/keys/my key')
  expect(fs.statSync(folder).mode & 0o777).toBe(0o700)
  expect(fs.statSync(path.join(folder, 'berth_config')).mode & 0o777).toBe(0o600)
  expect(read('berth_config')).toContain('Host berth-calm-ivory-horse\n  HostName 198.51.100.7\n  Port 21001\n')
  expect(read('berth_config')).toContain('  IdentityFile "/keys/my key"\n  IdentitiesOnly yes')
  const hostKeys = ['berth-calm-ivory-horse ssh-ed25519 AAAA', 'berth-brave-teal-otter ssh-ed25519 BBBB', '']
  fs.writeFileSync(path.join(folder, 'berth_known_hosts'), hostKeys.join('\n'))
  writeSshFiles(folder, [other], undefined)
  expect(read('berth_config')).not.toContain('calm-ivory-horse')
  expect(read('berth_known_hosts')).toBe('berth-brave-teal-otter ssh-ed25519 BBBB\n')
})

test('P61: a link to the configuration stays a link', () => {
  fs.mkdirSync(folder)
  const real = path.join(path.dirname(folder), 'dotfiles-config')
  fs.writeFileSync(real, OWN)
  fs.symlinkSync(real, path.join(folder, 'config'))
  writeSshFiles(folder, [one], undefined)
  expect(fs.lstatSync(path.join(folder, 'config')).isSymbolicLink()).toBe(true)
  expect(fs.readFileSync(real, 'utf8')).toBe(`Include berth_config\n${OWN}`)
})

test('P61: a file that cannot be replaced stays whole', () => {
  fs.mkdirSync(folder)
  fs.mkdirSync(path.join(folder, 'config'))
  expect(() => writeSshFiles(folder, [one], undefined)).toThrow(/EISDIR/)
  expect(list()).toEqual(['berth_config', 'config'])
})

test('P63: pools name what SkyPilot and dstack read', () => {
  expect(parse(renderPool('skypilot', 'berth', [one, other], undefined))).toEqual({
    berth: { hosts: ['berth-calm-ivory-horse', 'berth-brave-teal-otter'] },
  })
  expect(parse(renderPool('dstack', 'gpus', [one], '~/.ssh/work'))).toEqual({
    type: 'fleet',
    name: 'gpus',
    ssh_config: {
      identity_file: '~/.ssh/work',
      hosts: [{ hostname: '198.51.100.7', port: 21_001, user: 'root' }],
    },
  })
})
