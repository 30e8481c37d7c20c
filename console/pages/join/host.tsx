/** A machine that has just joined, with its state and the next step. */
import { gpuLabel } from '../../../src/view/gpu.ts'
import { offeringLabels, standingOf, type Supplied } from '../../../src/view/supply.ts'
import { useMay } from '../../api/me.ts'
import { Badge } from '../../ui/badge.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'
import { useNow } from '../../ui/now.ts'
import { PriceEditor } from '../supply/price.tsx'

export function JoinedHost({ one }: { one: Supplied }) {
  const { label, tone, hint } = standingOf(one, useNow())
  const { machine, host, of } = one
  const isOperator = useMay('operator')
  return (
    <Card title={`${one.id} joined`} actions={<Badge tone={tone}>{label}</Badge>}>
      <Facts
        facts={[
          ['State', hint],
          ['GPUs', `${of.gpusTotal} × ${gpuLabel(of.gpuModel)}${host?.simulated === true ? ', simulated' : ''}`],
          ['Offers', `${offeringLabels[of.offering]} in ${of.region}, cluster ${of.clusterName}`],
          ...(machine === undefined
            ? []
            : ([['Price per GPU-hour', <PriceEditor key="price" machine={machine} />]] as const)),
        ]}
      />
      <p className="mt-3 text-sm text-muted">{nextStep(isOperator, machine !== undefined)}</p>
      <div className="mt-3 flex flex-wrap gap-2">
        <ButtonLink to="/supply" look="primary">
          View my machines
        </ButtonLink>
        {isOperator ? (
          <ButtonLink to="/operator/fleet">View fleet</ButtonLink>
        ) : (
          <ButtonLink to="/supply/earnings">View earnings</ButtonLink>
        )}
      </div>
    </Card>
  )
}

function nextStep(isOperator: boolean, isListed: boolean): string {
  if (isOperator) return 'It belongs to the operator and is listed under Fleet, at the price in the command.'
  return isListed
    ? 'Next: check its price. Its earnings are listed under Earnings, after the platform fee.'
    : 'You can set its price here once it is listed.'
}
