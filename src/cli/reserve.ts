/** `berth reserve`: asks the operator for more than the options show. */
import type { Command } from 'commander'
import type { Run } from './session.ts'
import { parseWhole } from './supply.ts'

const MAX_GPUS = 1_000_000

export function addReserveCommand(program: Command, run: Run): void {
  program
    .command('reserve')
    .description('ask the operator for a large reservation')
    .argument('<gpus>', 'how many GPUs', parseWhole(1, MAX_GPUS))
    .action(
      run('customer', async ({ client, screen }, gpus = '') => {
        const answer = await client.call('requestReservation', { body: { gpuCount: Number(gpus) } })
        screen.show(answer, () => [answer.message])
      }),
    )
}
