/** The cost of requests, which is known shortly after they end. */
import { sumUsd } from '../../../src/base/money.ts'
import { money } from '../../../src/view/money.ts'
import { Money } from '../../ui/money.tsx'
import { useCosts } from '../../api/inference.ts'
import { SkeletonText } from '../../ui/skeleton.tsx'

export function RequestCost({ requestId }: { requestId: string }) {
  const [cost] = useCosts([requestId])
  // The request was stopped before it had an id; the server may still have answered it.
  if (requestId === '') return <>cost unknown</>
  if (cost?.data !== undefined && cost.data !== null) return <Money usd={cost.data} />
  if (cost?.isError === true) return <>cost unknown; see Requests</>
  return (
    <>
      <span className="sr-only">cost pending</span>
      <SkeletonText className="w-16" />
    </>
  )
}

export function TotalCost({ requestIds }: { requestIds: readonly string[] }) {
  const costs = useCosts(requestIds.filter((id) => id !== ''))
  const amounts = costs.flatMap(({ data }) => (data === undefined || data === null ? [] : [data]))
  const isWhole = amounts.length === costs.length
  return (
    <>
      {money(sumUsd(amounts))}
      {isWhole ? '' : ' so far'}
    </>
  )
}
