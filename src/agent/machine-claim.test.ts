/** Two agents on one machine. */
import { spawn, type ChildProcess } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { waitFor } from '../../test/harness/wait.ts'
import { claimMachine } from './machine-claim.ts'

let folder: string
let socketPath: string
beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-claims-'))
  socketPath = path.join(folder, 'docker.sock')
  fs.writeFileSync(socketPath, '')
  fs.symlinkSync(socketPath, path.join(folder, 'other-name.sock'))
})
afterEach(() => fs.rmSync(folder, { recursive: true, force: true }))

async function otherAgent(isSimulated: boolean): Promise<ChildProcess> {
  const program = `import { claimMachine } from ${JSON.stringify(path.resolve('src/agent/machine-claim.ts'))}
    claimMachine(${JSON.stringify({ isSimulated, socketPath })}, ${JSON.stringify(folder)})
    process.stdout.write('claimed')
    setInterval(() => {}, 1_000)`
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', program])
  let out = ''
  child.stdout.on('data', (data: Buffer) => (out += data.toString()))
  await waitFor('the other agent has claimed the machine', () => out === 'claimed')
  return child
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}

test('real GPUs are offered by one agent, and by another once that is gone (issue 31, 17)', async () => {
  const other = await otherAgent(false)
  expect(() => claimMachine({ isSimulated: false, socketPath }, folder)).toThrow(
    `Another agent (process ${other.pid}) already offers the GPUs`,
  )
  expect(() => claimMachine({ isSimulated: false, socketPath: undefined }, folder)).toThrow('already offers the GPUs')
  await kill(other)
  expect(claimMachine({ isSimulated: false, socketPath }, folder)).toEqual([])
})

test('two agents with simulated GPUs may share an engine, and the owner is told (issue 31, 17)', async () => {
  const other = await otherAgent(true)
  const alias = path.join(folder, 'other-name.sock')
  expect(claimMachine({ isSimulated: true, socketPath: alias }, folder)).toEqual([
    expect.stringContaining(`Another agent (process ${other.pid}) uses this container engine`),
  ])
  await kill(other)
  expect(claimMachine({ isSimulated: true, socketPath: alias }, folder)).toEqual([])
})
