/** The model catalog over HTTP. */
import { catalogOf, listCatalogFits, listGpuFits } from '../../app/serving/catalog.ts'
import { ok } from '../../contract/result.ts'
import type { Handlers } from '../http/handler.ts'

const MIB_PER_GIB = 1_024

export const catalogHandlers = {
  listCatalog: async (app, { actor, query }) => {
    const { file, source, problem } = catalogOf(app)
    const fits = await listCatalogFits(app, app.database.db, query.kind)
    const isOperator = actor.scopes.includes('operator')
    return ok({
      date: file.date,
      source: isOperator || source === 'built-in' ? source : 'operator',
      problem: isOperator ? problem : null,
      models: fits.map(({ model, fit }) => ({
        id: model.id,
        title: model.title,
        kind: model.kind,
        license: model.license,
        gated: model.gated,
        contextTokens: model.contextTokens ?? null,
        abilities: model.abilities,
        minGb: Math.min(...model.variants.map(({ minGb }) => minGb)),
        checkedAt: model.checked?.date ?? null,
        fit: fit.ok
          ? {
              precision: fit.value.precision,
              recipe: fit.value.spec.recipe.name,
              gpuModel: fit.value.gpus.gpuModel,
              gpuCount: fit.value.gpus.gpuCount,
              region: fit.value.gpus.region,
              costPerHourUsd: fit.value.gpus.costPerHour,
            }
          : null,
        whyNot: fit.ok ? null : fit.message,
        whyNotReason: fit.ok ? null : fit.reason,
      })),
    })
  },

  listCatalogGpus: async (app, { query }) => {
    const options = await listGpuFits(app, app.database.db, query)
    if (!options.ok) return options
    const { fits, simulated } = options.value
    return ok({
      simulated,
      gpus: fits.map(({ gpus, fault }) => ({
        gpuModel: gpus.gpuModel,
        gpuMemoryGb: Math.round(gpus.gpuRamMib / MIB_PER_GIB),
        gpuCount: gpus.gpuCount,
        region: gpus.region,
        costPerHourUsd: gpus.costPerHour,
        fits: fault === undefined,
        whyNotReason: fault?.reason ?? null,
      })),
    })
  },
} satisfies Partial<Handlers>
