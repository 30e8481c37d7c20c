/** `berth quote` and `berth reserve`: prices of an order that is not placed, and orders that are placed by people. */
import { money } from '../view/money.ts'
import { act, show } from './row.ts'
import { fields, table } from './screen.ts'
import type { Row } from './row-type.ts'

export const rows: readonly Row[] = [
  show({
    command: 'quote',
    operation: 'quoteRental',
    description: 'show what a virtual machine or bare metal would cost',
    flags: {
      rentalType: { flag: '--kind <kind>', help: 'kind of machine' },
      region: { help: 'region, as shown by berth gpus' },
      gpuType: { flag: '--gpu <type>', help: 'GPU type' },
      networkType: { flag: '--network <type>', help: 'network between machines' },
      gpuCount: { flag: '--count <n>', help: 'number of GPUs' },
      termPeriodDays: { flag: '--days <n>', help: 'reserved term in days (default: on demand)' },
      discountPercentage: { flag: '--discount <percent>', help: 'discount (default: the best for the term)' },
    },
    defaults: { rentalType: 'virtual-machine', networkType: 'ethernet', gpuCount: 1 },
    lines: (quote, { screen }) => [
      ...fields(screen, [
        ['Price', `${money(quote.costPerHourUsd)}/hr`],
        ['Term', quote.termPeriodDays === null ? 'on demand' : `${quote.termPeriodDays} days`],
        [
          'Discount',
          quote.discountPercentage === 0
            ? undefined
            : `${quote.discountPercentage}% off ${money(quote.originalCostPerHourUsd)}/hr`,
        ],
        ['Total', quote.totalUsd === null ? undefined : money(quote.totalUsd)],
        ['Hold', money(quote.holdUsd)],
      ]),
      ...(quote.earlyEndRates.length === 0
        ? []
        : [
            '',
            ...table(
              screen,
              [{ title: 'ENDED AFTER' }, { title: 'PRICE OF THE TIME USED', right: true }],
              quote.earlyEndRates.map((rate) => [
                rate.completedDays === 0 ? 'any time' : `${rate.completedDays} days`,
                `${money(rate.costPerHourUsd)}/hr`,
              ]),
            ),
          ]),
    ],
    examples: ['berth quote --gpu h100 --region us-central-1 --count 8 --days 30'],
  }),
  act({
    command: 'reserve',
    operation: 'requestReservation',
    description: 'ask the operator for a large reservation',
    args: [{ name: '<gpus>', help: 'number of GPUs', field: 'gpuCount' }],
    done: ({ message }) => message,
    examples: ['berth reserve 512'],
  }),
]
