/** A machine that has just joined: what it is doing, and what to do next. */
import { Badge } from '../ui/badge.tsx'
import { ButtonLink } from '../ui/button.tsx'
import { Card, Facts } from '../ui/card.tsx'
import { useNow } from '../ui/now.ts'
import { PriceEditor } from './supply-price.tsx'
import { gpuWords, offeringWords, standingOf, type Supplied } from './supply-words.ts'

export function JoinedHost({ one }: { one: Supplied }) {
  const { word, tone, sentence } = standingOf(one, useNow())
  const { machine, host, of } = one
  return (
    <Card title={`${one.id} has joined`} actions={<Badge tone={tone}>{word}</Badge>}>
      <Facts
        facts={[
          ['Now', sentence],
          ['GPUs', `${of.gpusTotal} × ${gpuWords(of.gpuModel)}${host?.simulated === true ? ', simulated' : ''}`],
          ['Sells', `${offeringWords[of.offering]} in ${of.region}, cluster ${of.clusterName}`],
          ...(machine === undefined
            ? []
            : ([['USD a GPU and hour', <PriceEditor key="price" machine={machine} />]] as const)),
        ]}
      />
      <p className="mt-3 text-sm text-muted">
        {machine === undefined
          ? 'Its price can be set here as soon as it is in the catalogue.'
          : 'Next: look at its price. What it earns stands under Earnings, with the fee taken off.'}
      </p>
      <div className="mt-3 flex flex-wrap gap-2">
        <ButtonLink to="/supply" look="primary">
          Go to my machines
        </ButtonLink>
        <ButtonLink to="/supply/earnings">See earnings</ButtonLink>
      </div>
    </Card>
  )
}
