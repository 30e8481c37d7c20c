/** `berth cp` and `berth exec` with a machine that is reached by SSH alone. */
import { mkdir, writeFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { succeed } from '../harness/journey.ts'
import { waitFor } from '../harness/wait.ts'
import { whyNoMetalLab } from '../lab/metal-lab.ts'
import { METAL_REGION, startMetalMachines, type MetalMachines } from '../lab/metal-machines.ts'
import { checkCopies } from '../lab/moved-data.ts'
import { needs } from '../needs.ts'

needs('docker', 'metal', 'build')

const reason = whyNoMetalLab()

describe.skipIf(reason !== null)(`copies over SSH${reason === null ? '' : ` (skipped: ${reason})`}`, () => {
  let machines: MetalMachines

  beforeAll(async () => {
    machines = await startMetalMachines({ hosts: 1 })
  }, 120_000)
  afterAll(() => machines?.close())

  test('files and folders are copied both ways and byte for byte, also by an id of one digit (issue 31, C)', async () => {
    const ada = await machines.customer()
    const order = { gpuCount: 8, region: METAL_REGION, gpuType: 'h100', networkType: 'ethernet' }
    const { id } = await succeed(ada.call, 'POST', '/v2/alpha/on-demand/bare-metal-rentals', order)
    expect(id).toBeLessThan(10)
    await waitFor('the rental runs', async () => {
      return (await succeed(ada.call, 'GET', `/v2/rentals/${id}`)).state === 'Running'
    })
    const env = { BERTH_URL: machines.server.url, BERTH_KEY: ada.key, PATH: await sshInPath(ada.keyFile) }
    await checkCopies(env, String(id), ['-i', ada.keyFile])
  })
})

/** A PATH whose `ssh` leaves the known hosts of this machine's user alone. */
async function sshInPath(keyFile: string): Promise<string> {
  const folder = `${keyFile}-bin`
  await mkdir(folder)
  const script = '#!/bin/sh\nexec /usr/bin/ssh -F /dev/null -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$@"\n'
  await writeFile(`${folder}/ssh`, script, { mode: 0o755 })
  return `${folder}:${process.env['PATH'] ?? ''}`
}
