/** `berth cost`: what requests have cost, by the ids that answers carry. */
import { InvalidArgumentError, type Command } from 'commander'
import { limits } from '../base/limits.ts'
import { formatUsdForPeople, nanoUsdOf, sumUsd } from '../base/money.ts'
import { count } from '../view/number.ts'
import { table, type Cell } from './screen.ts'
import type { Run } from './session.ts'
import { CliError, exitCodes } from './shell.ts'

export function addCostCommands(program: Command, run: Run): void {
  const cost = program
    .command('cost')
    .description('what requests have cost')
    .argument('<id...>', 'ids of requests, such as req_…: the header X-Inference-Request-Id', checkId)
    .addHelpText('after', '\nExample:\n  berth cost req_cc1cbf2556a145c74b1c4df0a8df525b')
  cost.action(
    run('customer', async ({ client, screen }) => {
      const requestIds = [...new Set(cost.args)]
      if (requestIds.length > limits.requestIds) {
        throw new CliError(exitCodes.usage, `${count(requestIds.length, 'request')} are too many for one call.`, [
          `Ask for ${limits.requestIds} at a time.`,
        ])
      }
      const { requests } = await client.call('getRequestCost', { body: { requestIds } })
      const costs = new Map(requests.map((one) => [one.requestId, nanoUsdOf(BigInt(one.costNanoUsd))]))
      const unknown = requestIds.filter((id) => !costs.has(id))
      screen.show({ requests, unknown }, () => [
        ...table(
          screen,
          [{ title: 'REQUEST' }, { title: 'COST', right: true }],
          requestIds.map((id): Cell[] => {
            const known = costs.get(id)
            return [id, known === undefined ? { text: 'not known', style: 'yellow' } : formatUsdForPeople(known)]
          }),
        ),
        '',
        `${count(requests.length, 'request')}, ${formatUsdForPeople(sumUsd(costs.values()))} in all`,
        ...(unknown.length === 0 ? [] : ['What is not known is of another account, or was refused before it began.']),
      ])
      return unknown.length === 0 ? exitCodes.ok : exitCodes.failed
    }),
  )
}

/** Given for each word, with those before it. */
function checkId(text: string, before: readonly string[] | undefined): readonly string[] {
  if (!/^[\w-]{1,100}$/.test(text)) throw new InvalidArgumentError('An id has letters, digits, - and _ only.')
  return [...(before ?? []), text]
}
