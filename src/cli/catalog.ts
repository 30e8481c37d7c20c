/** `berth catalog`: the models that a customer can call. */
import { number } from '../view/number.ts'
import type { Reply } from '../client/client.ts'
import { list, show } from './row.ts'
import { fields, type Cell } from './screen.ts'
import type { Row } from './row-type.ts'

type Model = Reply<'getModel'>

export const rows: readonly Row[] = [
  list({
    command: 'catalog',
    operation: 'listModels',
    rows: 'data',
    description: 'list models you can call, and their prices',
    noun: 'model',
    empty: ['No models are on sale.', 'The operator adds one with: berth models add'],
    columns: [
      { title: 'MODEL', of: (model) => model.id },
      { title: 'KIND', of: (model) => model.kind ?? '' },
      { title: 'STATUS', of: statusCell },
      { title: 'PRICE PER MILLION', of: priceOf },
      {
        title: 'CONTEXT',
        right: true,
        of: (model) => (model.context_length === null ? '' : number(model.context_length)),
      },
    ],
    hint: 'To call one: berth chat --model MODEL "Hello"',
    examples: ['berth catalog'],
  }),
  show({
    command: 'catalog show',
    operation: 'getModel',
    description: 'show a model you can call',
    args: [{ name: '<model>', help: 'name, as shown by berth catalog', field: 'id' }],
    lines: (model, { screen }) =>
      fields(screen, [
        ['Model', { text: model.id, style: 'bold' }],
        ['Kind', model.kind],
        ['Status', statusCell(model)],
        ['Price', `${priceOf(model)} per million`],
        ['Context', model.context_length === null ? undefined : `${number(model.context_length)} tokens`],
        ['Tools', model.supports_tools ? 'yes' : 'no'],
        ['Image input', model.supports_image_input ? 'yes' : 'no'],
      ]),
    examples: ['berth catalog show owner/small'],
  }),
]

function statusCell({ status }: Model): Cell {
  if (status === undefined) return ''
  return { text: status, style: status === 'ready' ? 'green' : 'yellow' }
}

function priceOf({ kind, input_price: input, output_price: output, pixel_step_price: pixelStep }: Model): string {
  if (pixelStep !== undefined) return `$${pixelStep} pixel steps`
  if (kind === 'chat') return `$${input ?? 0} in, $${output ?? 0} out`
  return kind === 'speech' ? '' : `$${input ?? 0} in`
}
