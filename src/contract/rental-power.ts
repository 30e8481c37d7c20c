/** Stop, start and reboot of rentals of every kind. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { rental } from './rental.ts'
import { idOrNameParams } from './rental-session.ts'

/** A start chooses one of these if the host has too few free GPUs. */
const ifNoGpu = z.enum(['fail', 'wait', 'cpuOnly', 'move'])
export type IfNoGpu = z.infer<typeof ifNoGpu>

const power = {
  method: 'POST',
  family: 'v2',
  tag: 'Rentals',
  access: ['compute:write'],
  errors: [400, 401, 403, 404, 500],
  params: idOrNameParams,
  response: rental,
} as const

const base = '/v2/rentals/{id}'

export const rentalPowerEndpoints = {
  stopRental: endpoint({
    ...power,
    path: `${base}/stop`,
    summary: 'Stop a rental and keep its disk',
    description:
      'Releases the GPUs, and keeps the disk, the name and the addresses. From the moment the machine is off, only the disk is charged (`stoppedCostPerHourUsd`). Its GPUs may be rented to others meanwhile. The disk is kept for as long as the balance pays for it. Stopping a stopped rental succeeds and ends a wait for GPUs. Reserved rentals cannot be stopped (`reserved_not_stoppable`).',
  }),
  startRental: endpoint({
    ...power,
    path: `${base}/start`,
    summary: 'Start a stopped rental on its disk',
    description:
      'Claims GPUs on the host that has the disk, at the price of the rental. If they are not free, `ifNoGpu` decides. `fail`: the answer is `no_gpu_on_host` at once. `wait`: the rental starts as soon as they are free. `cpuOnly`: it starts without GPUs, with at most 2 CPUs and 4 GB of memory, for `cpuOnlyCostPerHourUsd`, so that its files can be reached; to start it with GPUs again, stop it first. `move`: it starts on another machine of the same supplier and GPU, at the same price and with the same addresses, as soon as its disk has been copied there; if that fails, it is Stopped, with its disk where it was. Containers without storage volumes can be moved.',
    body: z
      .strictObject({
        ifNoGpu: ifNoGpu.default('fail').describe('If its host has too few free GPUs'),
      })
      .meta({ id: 'StartRental' }),
  }),
  rebootRental: endpoint({
    ...power,
    path: `${base}/reboot`,
    summary: 'Reboot a running rental',
    description: 'Keeps its disk, GPUs, addresses and price. Billing continues.',
    idempotent: true,
  }),
}
