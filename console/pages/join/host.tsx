/** A machine that has just joined: what it is doing, and what to do next. */
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
  const isHouse = useMay('operator')
  return (
    <Card title={`${one.id} has joined`} actions={<Badge tone={tone}>{label}</Badge>}>
      <Facts
        facts={[
          ['Now', hint],
          ['GPUs', `${of.gpusTotal} × ${gpuLabel(of.gpuModel)}${host?.simulated === true ? ', simulated' : ''}`],
          ['Sells', `${offeringLabels[of.offering]} in ${of.region}, cluster ${of.clusterName}`],
          ...(machine === undefined
            ? []
            : ([['USD a GPU and hour', <PriceEditor key="price" machine={machine} />]] as const)),
        ]}
      />
      <p className="mt-3 text-sm text-muted">{nextStep(isHouse, machine !== undefined)}</p>
      <div className="mt-3 flex flex-wrap gap-2">
        <ButtonLink to="/supply" look="primary">
          Go to my machines
        </ButtonLink>
        {isHouse ? (
          <ButtonLink to="/operator/fleet">See the fleet</ButtonLink>
        ) : (
          <ButtonLink to="/supply/earnings">See earnings</ButtonLink>
        )}
      </div>
    </Card>
  )
}

function nextStep(isHouse: boolean, isListed: boolean): string {
  if (isHouse) return 'It is a machine of the house: it keeps the price of its command, and stands under Fleet.'
  return isListed
    ? 'Next: look at its price. What it earns stands under Earnings, with the fee taken off.'
    : 'Its price can be set here as soon as it is in the catalogue.'
}
