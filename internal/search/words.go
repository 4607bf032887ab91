package search

import "strings"

func wordSet(list string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// particles are the Korean case markers and delimiters that stand behind a
// noun; longer ones are combinations that are common in writing.
var particles = wordSet(`
을 를 이 가 은 는 에 의 도 만 로 와 과 나 랑 란 야 들 께 고
으로 에서 에게 한테 까지 부터 처럼 보다 마다 조차 마저 밖에 이나 이란 이랑 하고 라고 라는 라도 이라 에는 에도 에만 와의 과의 로의
에서는 에서도 에서의 에게는 에게서 으로는 으로도 으로써 으로서 이라고 이라는 이라도 까지는 까지의 부터는 들이 들을 들은 들의 들에 들과
으로부터 에서부터 들에게 들에서 로부터 로서 로써 에의 만의 만을 만이
`)

// endings turn a noun into a verb or end a sentence: 설치하는, 설치합니다, 계약인가요.
var endings = wordSet(`
하다 한다 하는 하고 하기 하여 하면 하며 하지 하게 하려 하려면 하려고 했다 했던 했고 해서 해야 해도 해요 해라 한 할 함 합니다 했습니다 합니까
되다 된다 되는 되고 되어 되면 되기 됐다 됐던 된 될 됨 됩니다 되었다 되었습니다 돼요
이다 입니다 입니까 인가 인가요 인지 인데 이며 이고 이었다 였다 예요 이에요 적인 적으로 시키는 시킨 시킬 하나요 되나요 하는지 되는지
`)

// stopWords carry no subject. They still count a little: "the who" beside
// "who" is worth something.
var stopWords = wordSet(`
a about above after again against all am an and any are aren't as at be because been before being below between both but by
can can't cannot could couldn't did didn't do does doesn't doing don't down during each few for from further had has have
having he her here hers him his how i if in into is isn't it its itself just let's me more most my myself no nor not of off on
once only or other our ours out over own same shall she should shouldn't so some such than that the their theirs them then there
these they this those through to too under until up upon us very was wasn't we were weren't what what's when where which while
who whom whose why will with won't would wouldn't you your yours
find show tell give please me
것 것은 것을 것이 수 등 및 때 그 이 저 그리고 그러나 하지만 또는 또 더 좀 잘 왜 뭐 뭘 무엇 무엇을 무엇이 무엇인가 무엇인가요 무슨 어떤 어떻게
언제 어디 어디서 어디에 누가 누구 얼마나 대한 대해 대하여 관한 관해 위한 위해 통해 따른 따라 있는 있다 있나요 있을까 없는 하는 되는 한 할
해줘 알려줘 알려주세요 찾아줘 찾아주세요 보여줘 인가요 입니까 관련 관련된
`)
