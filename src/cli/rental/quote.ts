/** `berth quote` and `berth reserve`: prices of an order that is not placed, and orders that are placed by people. */
import { hourlyPrice } from '../../view/money.ts'
import { shortRentalKinds } from '../../view/rental.ts'
import { tableOf } from '../kit/record.ts'
import { act, show } from '../kit/row.ts'
import type { Row } from '../kit/row-type.ts'

export const rows: readonly Row[] = [
  show('quote', 'quoteRental', 'show what a virtual machine or bare metal would cost', {
    flags: {
      rentalType: { text: '--kind <kind>  kind of machine', shortNames: shortRentalKinds },
      region: 'region, as shown by berth gpus ls',
      gpuType: '--gpu <type>  GPU type',
      networkType: '--network <type>  network between machines',
      gpuCount: '--count <n>  number of GPUs',
      termPeriodDays: '--days <n>  reserved term in days (default: on demand)',
      diskGb: '--disk <gb>  size of the root disk',
      discountPercentage: '--discount <percent>  discount (default: the best for the term)',
    },
    defaults: { rentalType: 'virtual-machine', networkType: 'ethernet', gpuCount: 1 },
    examples: ['berth quote --gpu h100 --region us-central-1 --count 8 --days 30'],
    facts: [
      {
        Price: ({ costPerHourUsd }) => hourlyPrice(costPerHourUsd),
        Term: ({ termPeriodDays: days }) => (days === null ? 'on demand' : `${days} days`),
        Discount: ({ discountPercentage: percent, originalCostPerHourUsd: before }) =>
          percent === 0 ? undefined : `${percent}% off ${hourlyPrice(before)}`,
      },
      'totalUsd',
      'holdUsd',
      {
        'While stopped': ({ stoppedCostPerHourUsd: price, diskGb }) =>
          price === null ? undefined : `${hourlyPrice(price)} for its disk of ${diskGb} GB`,
      },
    ],
    content: ({ earlyEndRates: rates }) =>
      rates.length === 0
        ? []
        : [
            '',
            tableOf(rates, [
              {
                'ENDED AFTER': ({ completedDays: days }) => (days === 0 ? 'any time' : `${days} days`),
                'PRICE OF THE TIME USED': ({ costPerHourUsd }) => hourlyPrice(costPerHourUsd),
              },
            ]),
          ],
  }),
  act('reserve', 'requestReservation', 'ask the operator for a large reservation', {
    args: { '<gpus>': { help: 'number of GPUs', field: 'gpuCount' } },
    flags: {
      gpuType: '--gpu <type>  GPU type',
      from: 'first day',
      until: 'last day',
      contact: 'how to reach you',
      note: 'anything else that the operator should know',
    },
    examples: ['berth reserve 512'],
    done: ({ message }) => `${message}.`,
  }),
]
