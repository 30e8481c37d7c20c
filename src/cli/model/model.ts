/** `berth models`: what operators sell. */
import { localLabel, modelPlaces, modelPrice, modelState } from '../../view/model.ts'
import { addModelRow } from './model-add.ts'
import { factFlags, priceFlags } from './model-flag.ts'
import { pullRow } from './model-pull.ts'
import { act, list } from '../kit/row.ts'
import { red, toned } from '../kit/screen.ts'
import type { Row } from '../kit/row-type.ts'

const NAME = { '<name>': 'name, as shown by berth models ls' }
const REASON = { reason: 'reason, recorded in the audit log' }

export const rows: readonly Row[] = [
  list('models ls', 'listOperatedModels', 'list models: state, prices, deployments', {
    columns: [
      'name',
      'kind',
      {
        STATE: (model) => {
          const { label, tone, detail } = modelState(model)
          return toned(tone, label === 'downloading' && detail !== undefined ? `${label} ${detail}` : label)
        },
        PRICE: modelPrice,
        'RUNS ON': modelPlaces,
      },
      'contextTokens:CONTEXT',
    ],
    empty: ['No models are on sale.', 'To add one: berth models create NAME --upstream URL, or --gguf FILE'],
    below: (models) =>
      models.map(({ name, local }) => (local?.state === 'failed' ? red(`${name} ${localLabel(local)}`) : undefined)),
  }),
  addModelRow(),
  pullRow,
  act('models set', 'changeModel', 'change the context length and capabilities of a model', {
    args: NAME,
    only: [...Object.keys(factFlags), 'reason'],
    flags: {
      contextTokens: '--context <tokens>  context length; none: as the engine reports it',
      maxOutputTokens: '--max-output <tokens>  longest answer; none: no limit',
      supportsTools: { text: factFlags.supportsTools, off: '--no-tools  it cannot call tools' },
      supportsImageInput: { text: factFlags.supportsImageInput, off: '--no-image-input  it accepts no images' },
      ...REASON,
    },
    examples: ['berth models set owner/small --context 8192 --tools'],
    done: ({ name }) => `Changed ${name}.`,
  }),
  act('models price', 'changeModel', 'set the prices of a model, effective from the next request', {
    args: NAME,
    only: [...Object.keys(priceFlags), 'reason'],
    flags: { ...priceFlags, ...REASON },
    examples: ['berth models price owner/small --input-price 0.04 --reason "sale"'],
    done: (model) => `${model.name} now costs ${modelPrice(model)}.`,
  }),
  switchRow('enable', true, 'put a model on sale again'),
  switchRow('disable', false, 'take a model off sale, but keep it'),
  act('models rm', 'deleteModel', 'delete a model and its deployments; asks first', {
    args: NAME,
    confirm: ({ args }) => `Delete the model ${String(args[0])} and its deployments?`,
    examples: ['berth models rm owner/small'],
    done: (_, { args }) => `Deleted ${String(args[0])}. Its revenue stays in the ledger.`,
  }),
]

function switchRow(verb: string, enabled: boolean, description: string): Row {
  return act(`models ${verb}`, 'changeModel', description, {
    args: NAME,
    only: [],
    fixed: { enabled },
    examples: [`berth models ${verb} owner/small`],
    done: ({ name }) => `${name} is ${enabled ? 'on sale again' : 'off sale'}.`,
  })
}
