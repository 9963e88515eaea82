// What harnesses have in common: a page in a frame, of which they tell what they see.
const frame = document.querySelector("iframe"), page = () => frame.contentDocument;
const tell = what => fetch("/seen?" + new URLSearchParams({what}));

// until waits for a condition, and tells that it has come. It is patient with a busy machine.
async function until(what, holds) {
  for (let i = 0; i < 600; i++) {
    try {
      if (holds()) return await tell(what);
    } catch {} // It is not there yet.
    await new Promise(done => setTimeout(done, 100));
  }
  await tell("never: " + what);
  throw new Error("never: " + what);
}

// run plays once the page is there, and tells when it is done.
function run(play) {
  const started = setInterval(() => {
    if (!frame.contentWindow || !page() || page().readyState !== "complete") return;
    clearInterval(started);
    play().catch(why => tell(String(why))).finally(() => tell("done"));
  }, 50);
}
