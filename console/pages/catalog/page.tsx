/** Models that can be deployed by name, each with GPUs that fit and their price. */
import type { Reply } from '../../../src/client/client.ts'
import { gpusLabel, shortGpuLabel } from '../../../src/view/gpu.ts'
import { modelKindLabels } from '../../../src/view/model.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'

type Model = Reply<'listCatalog'>['models'][number]

const SKELETON_ROWS = 6

export function CatalogPage() {
  const catalog = useCall('listCatalog', { query: {} })
  const { data, error } = catalog
  return (
    <Page
      intro="Deploy a model by its name: Berth chooses the engine and the cheapest GPUs that fit. You pay for GPU time, not per token."
      actions={<ButtonLink to="/deployments/new">Deploy another model</ButtonLink>}
    >
      {error !== null && <ErrorNotice error={error} />}
      {data !== undefined && data.problem !== null && (
        <Notice tone="warn">The newest catalog is not in use: {data.problem}</Notice>
      )}
      {data === undefined && error === null && <Skeleton rows={SKELETON_ROWS} />}
      <ul className="grid gap-4 sm:grid-cols-2 xl:grid-cols-3">
        {data?.models.map((model) => (
          <li key={model.id} className="flex">
            <ModelCard model={model} />
          </li>
        ))}
      </ul>
    </Page>
  )
}

function ModelCard({ model }: { model: Model }) {
  const { id, title, kind, abilities, contextTokens, fit, minGb, license } = model
  const may = useMay('compute:write')
  const why = may ? (model.whyNot ?? undefined) : missingScope('compute:write')
  return (
    <Card title={title} className="flex w-full flex-col">
      <div className="mb-3 flex flex-wrap gap-1.5">
        <Badge tone="info">{modelKindLabels[kind]}</Badge>
        {abilities.map((ability) => (
          <Badge key={ability}>{ability}</Badge>
        ))}
      </div>
      <Facts
        facts={[
          ['GPUs', fit === null ? `From ${minGb} GB, none free` : gpusLabel(fit.gpuCount, shortGpuLabel(fit.gpuModel))],
          ['Cost of a replica', fit === null ? '–' : hourlyPrice(fit.costPerHourUsd)],
          ...(contextTokens === null ? [] : [['Context', `${number(contextTokens)} tokens`] as const]),
          ['License', license ?? 'See the page of the model'],
        ]}
      />
      <div className="mt-auto pt-4">
        {why === undefined ? (
          <ButtonLink look="primary" to="/deployments/new" search={{ model: id }}>
            Deploy
          </ButtonLink>
        ) : (
          <Button disabledReason={why}>Deploy</Button>
        )}
      </div>
    </Card>
  )
}
