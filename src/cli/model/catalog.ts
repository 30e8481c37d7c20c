/** `berth catalog`: the models that a customer can deploy, and those that answer already. */
import type { Reply } from '../../client/client.ts'
import type { Reason } from '../../contract/reason/reasons.ts'
import { gpusLabel, shortGpuLabel } from '../../view/gpu.ts'
import { hourlyPrice } from '../../view/money.ts'
import { number } from '../../view/number.ts'
import { list, show } from '../kit/row.ts'
import { bold } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'

type Model = Reply<'getModel'>

const ONLY_SIMULATED: Reason = 'only_simulated_machines'

export const rows: readonly Row[] = [
  list('catalog ls', 'listCatalog', 'list models you can deploy, and what a replica costs now', {
    noun: 'model',
    columns: [
      'id:MODEL',
      'kind',
      {
        CONTEXT: ({ contextTokens }) => (contextTokens === null ? '' : number(contextTokens)),
        ABILITIES: ({ abilities }) => abilities.join(', '),
        GPUS: ({ fit, minGb, whyNotReason }) =>
          fit === null
            ? `from ${minGb} GB, ${whyNotReason === ONLY_SIMULATED ? 'only simulated' : 'none free'}`
            : gpusLabel(fit.gpuCount, shortGpuLabel(fit.gpuModel)),
        COST: ({ fit }) => (fit === null ? '' : hourlyPrice(fit.costPerHourUsd)),
      },
    ],
    empty: 'The catalog has no models.',
    hint: 'To deploy one: berth deploy MODEL',
    below: (models) =>
      models.some(({ whyNotReason }) => whyNotReason === ONLY_SIMULATED)
        ? [
            'Only simulated: the free machines are simulated, and simulated machines never run models.',
            'To offer a real machine: berth agent run',
          ]
        : [],
  }),
  list('catalog served', 'listModels', 'list models that answer already, and their prices', {
    noun: 'model',
    columns: ['id:MODEL', 'kind', 'status', { 'PRICE PER MILLION': priceOf }, 'context_length:CONTEXT'],
    empty: ['No models are on sale.', 'The operator adds one with: berth models create'],
    hint: 'To call one: berth chat --model MODEL "Hello"',
  }),
  show('catalog show', 'getModel', 'show a model you can call', {
    args: { '<model>': 'name, as shown by berth catalog served' },
    facts: [
      { Model: ({ id }) => bold(id) },
      'kind',
      'status',
      {
        Price: (model) => `${priceOf(model)} per million`,
        Context: ({ context_length: tokens }) => (tokens === null ? undefined : `${number(tokens)} tokens`),
      },
      'supports_tools:Tools',
      'supports_image_input:Image input',
    ],
    examples: ['berth catalog show owner/small'],
  }),
]

function priceOf({ kind, input_price: input, output_price: output, pixel_step_price: pixelStep }: Model): string {
  if (pixelStep !== undefined) return `$${pixelStep} pixel steps`
  if (kind === 'chat') return `$${input ?? 0} in, $${output ?? 0} out`
  return kind === 'speech' ? '' : `$${input ?? 0} in`
}
